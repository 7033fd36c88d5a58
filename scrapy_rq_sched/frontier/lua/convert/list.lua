-- Needs: keys, clearing
-- One step of a conversion of a queue that is a list: entries go from its tail to its head, converted. So when
-- all have gone, they stand as they stood.
--
-- ARGV  how many are left before this step, n, then n times from the tail on: entry, converted (empty: it is
--       not put back), an entry of the failed list (empty: none)
-- Reply 1; 0 if the list is not what it was, and nothing was changed
local left, n = number(), number()
local at = arguments(3 * n)
local before = redis.call('HMGET', CONVERTING, 'left', 'length')
local length = redis.call('LLEN', REQUESTS)
if tonumber(before[1]) ~= left or tonumber(before[2]) ~= length then return 0 end
local tail = redis.call('LRANGE', REQUESTS, -n, -1)
for i = 1, n do
  if tail[n - i + 1] ~= ARGV[at + 3 * (i - 1)] then return 0 end
end
for i = 1, n do
  local converted, failed = ARGV[at + 3 * i - 2], ARGV[at + 3 * i - 1]
  if converted ~= '' then redis.call('LPUSH', REQUESTS, converted) end
  if failed ~= '' then redis.call('RPUSH', FAILED, failed) end
end
redis.call('LTRIM', REQUESTS, 0, -n - 1)
clearing.removed(length - redis.call('LLEN', REQUESTS))
redis.call('HSET', CONVERTING, 'left', left - n, 'length', redis.call('LLEN', REQUESTS))
return 1
