-- Needs: keys
-- An import of a frontier. Meanwhile CONVERTING keeps workers out, and each step is done only once.
-- import_target.step(id, step)   -> nil, or {problem} if there is nothing to do: '' if the step was done before, 'lost' if
--                         another import has begun or this one has ended
-- import_target.length(key)      -> its number of members; nil for a string
-- import_target.count(key, n)    note that n members were added to the key
--
-- CONVERTING, a hash: from: 'import'; id; step: the last step done; count:<key>: how many members were imported into it
local import_target = {}
local LENGTH = {list = 'LLEN', set = 'SCARD', zset = 'ZCARD', hash = 'HLEN'}

function import_target.step(id, step)
  local lock = redis.call('HMGET', CONVERTING, 'id', 'step')
  if lock[1] ~= id then return {'lost'} end
  if tonumber(lock[2]) >= step then return {''} end
  redis.call('HSET', CONVERTING, 'step', step)
end

function import_target.length(key)
  if key == SEEN_STATE then return tonumber(redis.call('HGET', key, 'count')) or 0 end
  local type = redis.call('TYPE', key)['ok']
  if type == 'none' then return 0 end
  return LENGTH[type] and redis.call(LENGTH[type], key)
end

function import_target.count(key, n)
  redis.call('HINCRBY', CONVERTING, 'count:' .. key, n)
end

return import_target
