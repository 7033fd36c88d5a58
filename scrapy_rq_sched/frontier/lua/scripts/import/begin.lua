-- Needs: keys, store/seeds, store/seen, fleet/lost
-- Begin an import into an empty frontier. No worker joins until it has ended.
--
-- ARGV  id (which differs from that of any other import), the prefix of the frontier's keys, the spider's name,
--       n, then n times: field, value    the settings that all workers of the frontier must share
-- Reply {''}
--       {'converting', from}: another import, or a conversion, is under way or was interrupted
--       {'alive', n}: n workers are alive; {'full', key}: the frontier is not empty
--       {'type', key, its type, the right type}: nothing was changed
local id, frontier, spider = argument(), argument(), argument()
local lock = redis.call('HMGET', CONVERTING, 'id', 'from')
if lock[1] == id then return {''} end
if lock[2] then return {'converting', lock[2]} end
local alive = redis.call('ZCOUNT', WORKERS, '(' .. server_time(), '+inf')
if alive > 0 then return {'alive', alive} end
for _, key in ipairs({REQUESTS, SLOTS, DUPEFILTER, SEEN_STATE, STARTED, DELAYED, GROUPS, META, FAILED, HISTORY}) do
  if redis.call('EXISTS', key) == 1 then return {'full', key} end
end
for _, worker in ipairs(redis.call('ZRANGE', WORKERS, 0, -1)) do
  if redis.call('EXISTS', LEASES .. worker) == 1 then return {'full', LEASES .. worker} end
end
local _, problem = seeds.count()
problem = problem or wrong_type({{SEEN_CLEARED, 'list'}, {SEEN_FRONTIERS, 'set'}})
if problem then return {'type', unpack(problem)} end

redis.call('HSET', CONVERTING, 'from', 'import', 'id', id, 'step', 0)
-- Delete the rest of a finished crawl. Because of its finish, the next worker would clear the imported frontier.
redis.call('DEL', COUNTER, WORKERS, FINISHED, PAGES, EXPORTED, COUNTS, SLOT_COUNTS, CHART)
lost.clear()
seen.join(frontier)
for _ = 1, number() do redis.call('HSET', META, argument(), argument()) end
redis.call('HSET', META, 'spider', spider, 'requests_key', REQUESTS, 'dupefilter_key', DUPEFILTER,
  'start_urls_keys', table.concat(SEEDS, '\n'), 'slot_states', string.sub(SLOT, 1, -2))
change_epoch()
return {''}
