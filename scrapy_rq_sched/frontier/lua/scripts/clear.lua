-- Needs: keys, slots/clear_waiting, store/seen, store/items, store/groups, store/pool_items, fleet/fleet, fleet/record, fleet/crawls, fleet/lost, number_of
-- Remove a frontier. Redis frees large keys in the background, and seen.sweep() deletes a compact filter's buckets.
--
-- ARGV  force (0/1: even while workers are alive); keep the seeds, the failed list, the fingerprints (0/1 each); delete the
--       history of crawls (0/1);
--       the prefix of the frontier's keys
-- Reply {'', 0}
--       {'alive', n}: n workers are alive; nothing was changed
--       {'shared', frontier}: another frontier uses the filter, so it was not cleared; everything else was

-- For how many seconds the workers that are alive find out that the frontier was cleared.
local LATE = 600
local force = argument()
local keep_seeds, keep_failed, keep_seen = argument(), argument(), argument()
local with_history, frontier = argument(), argument()
local alive = redis.pcall('ZCOUNT', WORKERS, '(' .. server_time(), '+inf')
if force ~= '1' and type(alive) == 'number' and alive > 0 then return {'alive', alive} end

-- To clear a frontier makes room.
despite_full_memory()
-- The last worker of a finished crawl may have died before it cleared the frontier.
local finish = number_of(redis.pcall('HGET', META, 'finished'), nil)
crawls.write(finish and 'finished' or 'cleared', nil, finish or server_time())
record.clear()
if with_history == '1' then redis.call('UNLINK', CRAWLS) end
-- pcall, because somebody may have stored a value of another type there.
local workers = redis.pcall('ZRANGE', WORKERS, 0, -1)
for _, worker in ipairs(workers.err and {} or workers) do
  fleet.forget(worker)
  if type(alive) == 'number' and alive > 0 then
    -- To this worker the crawl has finished without it, also if another one makes a new frontier before it is heard.
    redis.call('HSET', WORKER .. worker, 'over', 1)
    redis.call('EXPIRE', WORKER .. worker, LATE)
  end
end
clear_waiting.clear()
groups.clear()
pool_items.clear()
items.drop_all()
lost.clear()
redis.call('UNLINK', SLOT_LIMITS, SLOT_PAGES, CONVERTING, COUNTER, STARTED, DELAYED, WORKERS, HISTORY, FINISHED,
  PAGES, EXPORTED, EVENTS, WEBHOOK, TIMES, OUTCOMES)
if keep_failed ~= '1' then redis.call('UNLINK', FAILED, REASONS) end
if keep_seeds ~= '1' then redis.call('UNLINK', frontier .. ':seeding', unpack(SEEDS)) end
local shared = keep_seen == '1' and '' or seen.clear(frontier)
redis.call('UNLINK', META)
-- To the workers that are still alive, the crawl has finished without them: requests that they still find are dropped.
if type(alive) == 'number' and alive > 0 then redis.call('SET', FINISHED, server_time(), 'EX', LATE) end
return shared == '' and {'', 0} or {'shared', shared}
