-- Needs: keys, slots/clear_waiting, store/groups
-- One step of converting a queue that is a sorted set: entries are replaced by converted ones with the same score.
--
-- ARGV  0, n, then n times: entry, converted entry (empty: do not put it back), an entry for the failed list (empty:
--       none)
-- Reply 1; or 0 if no conversion is under way: then nothing was done
number()
local before = redis.call('ZCARD', REQUESTS)
if redis.call('EXISTS', CONVERTING) == 0 then return 0 end
for _ = 1, number() do
  local entry, converted, failed = argument(), argument(), argument()
  local score = redis.call('ZSCORE', REQUESTS, entry)
  if score and converted ~= entry then
    if converted ~= '' then
      groups.replaced(entry, converted)
      redis.call('ZADD', REQUESTS, score, converted)
    else
      groups.released(entry, true)
    end
    if failed ~= '' then redis.call('RPUSH', FAILED, failed) end
    redis.call('ZREM', REQUESTS, entry)
  end
end
clear_waiting.removed(before - redis.call('ZCARD', REQUESTS))
return 1
