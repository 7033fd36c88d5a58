-- Needs: keys, queue, slots/clear_waiting, store/histories, store/groups, fleet/export_notes
-- Change waiting requests of a sorted set: remove them, or replace them with another text and score.
--
-- ARGV  n, then n times: request, its replacement (empty: remove it), score
-- Reply the places, from 1, of the requests that were changed; the others no longer wait
--       -1: the frontier is being exported, and the export would miss requests that move
local now = server_time()
local problem = wrong_type(types()) or wrong_type({{REQUESTS, queue.type}})
if problem then return wrong_type_error(problem) end
export_notes.note({}, now)
if export_notes.on then return -1 end

local changed, before_all = {}, redis.call('ZCARD', REQUESTS)
for i = 1, number() do
  local before, after, score = argument(), argument(), argument()
  -- The replacement may already wait: then both stay as they are.
  local is_there = after ~= '' and after ~= before and redis.call('ZSCORE', REQUESTS, after)
  if not is_there and redis.call('ZSCORE', REQUESTS, before) then
    -- The history's field is the hash of the serialized request, so it must move, too.
    local history = histories.of(before)
    redis.call('ZREM', REQUESTS, before)
    redis.call('HDEL', HISTORY, redis.sha1hex(before))
    if after == '' then
      groups.released(before)
    else
      groups.replaced(before, after)
      redis.call('ZADD', REQUESTS, score, after)
      if history ~= '' then redis.call('HSET', HISTORY, redis.sha1hex(after), history) end
    end
    changed[#changed + 1] = i
  end
end
-- Without this, a worker could take the removed requests for lost data.
redis.call('HDEL', META, 'waiting')
clear_waiting.removed(before_all - redis.call('ZCARD', REQUESTS))
if #changed > 0 then clear_waiting.changed() end
return changed
