-- Needs: keys, queue
-- One step of a search through the queue: return only the entries that contain a text.
--
-- ARGV  text, number of entries to search, cursor (sorted set) or first index (list)
-- Reply for a sorted set: {next cursor, entry, score, entry, score, …}
--       for a list: {0, place, entry, place, entry, …}, places from 0, relative to the first index
local text, count, from = argument(), argument(), argument()
local problem = queue.type and wrong_type({{REQUESTS, queue.type}})
if problem then return wrong_type_error(problem) end
local found = {}
if queue.type == 'zset' then
  local scanned = redis.call('ZSCAN', REQUESTS, from, 'COUNT', count)
  found[1] = scanned[1]
  for i = 1, #scanned[2], 2 do
    if string.find(scanned[2][i], text, 1, true) then
      found[#found + 1], found[#found + 2] = scanned[2][i], scanned[2][i + 1]
    end
  end
else
  found[1] = 0
  for i, entry in ipairs(redis.call('LRANGE', REQUESTS, from, from + count - 1)) do
    if string.find(entry, text, 1, true) then
      found[#found + 1], found[#found + 2] = i - 1, entry
    end
  end
end
return found
