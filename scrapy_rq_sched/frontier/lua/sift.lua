-- Needs: keys, clearing, exporting
-- Turn a list round by some entries, from its tail to its head, and leave out some of them. When all have gone
-- round, those that are left stand as they stood.
--
-- ARGV  n, then n times from the tail on: entry, keep (0/1)
-- Reply 1; 0 if its tail is not what it was, and nothing was changed
--       -1: the frontier is exported, and who reads it would miss what moves
local now = server_time()
local problem = wrong_type(types()) or wrong_type({{REQUESTS, 'list'}})
if problem then return wrong_type_error(problem) end
exporting.note({}, now)
if exporting.on then return -1 end

local n = number()
local at = arguments(2 * n)
local before = redis.call('LLEN', REQUESTS)
local tail = redis.call('LRANGE', REQUESTS, -n, -1)
if #tail ~= n then return 0 end
for i = 1, n do
  if tail[n - i + 1] ~= ARGV[at + 2 * i - 2] then return 0 end
end
for i = 1, n do
  if ARGV[at + 2 * i - 1] == '1' then
    redis.call('LPUSH', REQUESTS, ARGV[at + 2 * i - 2])
  else
    redis.call('HDEL', HISTORY, redis.sha1hex(ARGV[at + 2 * i - 2]))
  end
end
redis.call('LTRIM', REQUESTS, 0, -n - 1)
-- By this a worker would know that what waited is gone, and take it for a mishap.
redis.call('HDEL', META, 'waiting')
clearing.removed(before - redis.call('LLEN', REQUESTS))
return 1
