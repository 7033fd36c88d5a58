-- Needs: keys, slots/clear_waiting, store/groups
-- One step of converting a queue that is a list: entries are converted and move from its tail to its head. When all
-- have moved, they are in their old order.
--
-- ARGV  how many entries are left before this step, n, then n times from the tail on: entry, converted entry (empty: do
--       not put it back), an entry for the failed list (empty: none)
-- Reply 1; or 0 if the list has changed: then nothing was done
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
  if converted ~= '' then
    groups.replaced(tail[n - i + 1], converted)
    redis.call('LPUSH', REQUESTS, converted)
  else
    groups.released(tail[n - i + 1], true)
  end
  if failed ~= '' then redis.call('RPUSH', FAILED, failed) end
end
redis.call('LTRIM', REQUESTS, 0, -n - 1)
clear_waiting.removed(length - redis.call('LLEN', REQUESTS))
redis.call('HSET', CONVERTING, 'left', left - n, 'length', redis.call('LLEN', REQUESTS))
return 1
