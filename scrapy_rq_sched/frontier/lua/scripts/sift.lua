-- Needs: keys, slots/clear_waiting, store/groups, fleet/export_notes
-- Move some entries of a list from its tail to its head, and remove some of them. When all have moved, the remaining
-- entries are in their old order.
--
-- ARGV  n, then n times from the tail on: entry, keep (0/1)
-- Reply 1; or 0 if the tail has changed: then nothing was done
--       -1: the frontier is being exported, and the export would miss requests that move
local now = server_time()
local problem = wrong_type(types()) or wrong_type({{REQUESTS, 'list'}})
if problem then return wrong_type_error(problem) end
export_notes.note({}, now)
if export_notes.on then return -1 end

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
    groups.released(ARGV[at + 2 * i - 2])
  end
end
redis.call('LTRIM', REQUESTS, 0, -n - 1)
-- Without this, a worker could take the removed requests for lost data.
redis.call('HDEL', META, 'waiting')
clear_waiting.removed(before - redis.call('LLEN', REQUESTS))
return 1
