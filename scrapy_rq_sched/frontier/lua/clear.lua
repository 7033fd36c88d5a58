-- Needs: keys, clearing, seen
-- Remove a frontier. What takes long to free is freed in the background; of a compact filter's buckets, by
-- seen.sweep().
--
-- ARGV  force (0/1: though workers are alive), keep the seeds, the failed list, what was seen (0/1 each),
--       what the frontier's keys begin with
-- Reply {'', 0}
--       {'alive', n}: nothing was changed
--       {'shared', whose}: the filter is another frontier's as well, and was not cleared; the rest was
local force = argument()
local keep_seeds, keep_failed, keep_seen, frontier = argument(), argument(), argument(), argument()
local alive = redis.pcall('ZCOUNT', WORKERS, '(' .. server_time(), '+inf')
if force ~= '1' and type(alive) == 'number' and alive > 0 then return {'alive', alive} end

-- Whatever somebody may have put at these keys.
local workers = redis.pcall('ZRANGE', WORKERS, 0, -1)
for _, worker in ipairs(workers.err and {} or workers) do
  redis.call('UNLINK', LEASES .. worker, WORKER .. worker, SLOTS_OF .. worker)
end
clearing.clear()
redis.call('UNLINK', SLOT_LIMITS, CONVERTING, COUNTER, STARTED, DELAYED, WORKERS, HISTORY, FINISHED,
  PAGES, EXPORTED, EVENTS, EVENTS .. ':webhook', META .. ':times')
if keep_failed ~= '1' then redis.call('UNLINK', FAILED, FAILED .. ':reasons') end
if keep_seeds ~= '1' then redis.call('UNLINK', frontier .. ':seeding', unpack(SEEDS)) end
local shared = keep_seen == '1' and '' or seen.clear(frontier)
redis.call('UNLINK', META)
-- To who is at it this is as if the crawl had finished without him: what he still finds is not for anybody.
if type(alive) == 'number' and alive > 0 then redis.call('SET', FINISHED, server_time(), 'EX', 600) end
return shared == '' and {'', 0} or {'shared', shared}
