-- Needs: keys, importing
-- End an import, if all that was imported is there: workers may join.
--
-- ARGV  id
-- Reply {''}; {'lost'}: this import is no longer under way
--       {'differs', key, how many were imported into it, how many there are}: nothing was changed
local id = argument()
if redis.call('HGET', CONVERTING, 'id') ~= id then
  -- It was ended before, and the reply did not get through.
  return redis.call('HGET', META, 'imported') == id and {''} or {'lost'}
end
local lock = redis.call('HGETALL', CONVERTING)
for i = 1, #lock, 2 do
  local key = string.match(lock[i], '^count:(.*)$')
  local is = key and importing.length(key)
  if key and is ~= tonumber(lock[i + 1]) then return {'differs', key, tonumber(lock[i + 1]), is or -1} end
end
change_epoch()
redis.call('HSET', META, 'imported', id)
redis.call('DEL', CONVERTING)
return {''}
