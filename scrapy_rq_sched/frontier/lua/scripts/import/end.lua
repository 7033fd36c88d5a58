-- Needs: keys, fleet/import_target
-- End an import if all imported members are there, so that workers may join.
--
-- ARGV  id
-- Reply {''}; {'lost'}: this import is no longer under way
--       {'differs', key, number of imported members, number of members now}: nothing was changed
local id = argument()
if redis.call('HGET', CONVERTING, 'id') ~= id then
  -- The import may have ended before, and the reply was lost.
  return redis.call('HGET', META, 'imported') == id and {''} or {'lost'}
end
local lock = redis.call('HGETALL', CONVERTING)
for i = 1, #lock, 2 do
  local key = string.match(lock[i], '^count:(.*)$')
  local is = key and import_target.length(key)
  if key and is ~= tonumber(lock[i + 1]) then return {'differs', key, tonumber(lock[i + 1]), is or -1} end
end
change_epoch()
redis.call('HSET', META, 'imported', id)
redis.call('DEL', CONVERTING)
return {''}
