-- Needs: keys, queue, clearing, histories, exporting
-- Change waiting requests of a sorted set: take them out, or write them anew with another score.
--
-- ARGV  n, then n times: request, what it becomes (empty: it is taken out), score
-- Reply the places, from 1, of those that were changed: others no longer wait
--       -1: the frontier is exported, and who reads it would miss what moves
local now = server_time()
local problem = wrong_type(types()) or wrong_type({{REQUESTS, queue.type}})
if problem then return wrong_type_error(problem) end
exporting.note({}, now)
if exporting.on then return -1 end

local changed, before_all = {}, redis.call('ZCARD', REQUESTS)
for i = 1, number() do
  local before, after, score = argument(), argument(), argument()
  -- What it would become may wait already: then both stay as they are.
  local is_there = after ~= '' and after ~= before and redis.call('ZSCORE', REQUESTS, after)
  if not is_there and redis.call('ZSCORE', REQUESTS, before) then
    -- What befell it is known by the hash of what is written.
    local history = histories.of(before)
    redis.call('ZREM', REQUESTS, before)
    redis.call('HDEL', HISTORY, redis.sha1hex(before))
    if after ~= '' then
      redis.call('ZADD', REQUESTS, score, after)
      if history ~= '' then redis.call('HSET', HISTORY, redis.sha1hex(after), history) end
    end
    changed[#changed + 1] = i
  end
end
-- By this a worker would know that what waited is gone, and take it for a mishap.
redis.call('HDEL', META, 'waiting')
clearing.removed(before_all - redis.call('ZCARD', REQUESTS))
if #changed > 0 then clearing.changed() end
return changed
