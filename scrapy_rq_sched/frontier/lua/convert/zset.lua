-- Needs: keys, clearing
-- One step of a conversion of a queue that is a sorted set: entries are replaced by others of the same score.
--
-- ARGV  0, n, then n times: entry, converted (empty: it is not put back), an entry of the failed list (empty:
--       none)
-- Reply 1; 0 if the conversion is not under way, and nothing was changed
number()
local before = redis.call('ZCARD', REQUESTS)
if redis.call('EXISTS', CONVERTING) == 0 then return 0 end
for _ = 1, number() do
  local entry, converted, failed = argument(), argument(), argument()
  local score = redis.call('ZSCORE', REQUESTS, entry)
  if score and converted ~= entry then
    if converted ~= '' then redis.call('ZADD', REQUESTS, score, converted) end
    if failed ~= '' then redis.call('RPUSH', FAILED, failed) end
    redis.call('ZREM', REQUESTS, entry)
  end
end
clearing.removed(before - redis.call('ZCARD', REQUESTS))
return 1
