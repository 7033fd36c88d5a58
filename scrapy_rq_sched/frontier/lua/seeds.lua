-- Needs: keys
-- Seeds: in each key of SEEDS a list read from its head, as scrapy-redis does; or a set, or a sorted set from
-- its top. The first key is read before the second.
local seeds = {}
seeds.length = {list = 'LLEN', set = 'SCARD', zset = 'ZCARD'}

-- kind -> {key, its type}: where a seed came from. The kind is 'list', 'set' or 'zset', and from the second key
-- on its number: 'list2'.
seeds.kinds = {}
for i, key in ipairs(SEEDS) do
  for type in pairs(seeds.length) do seeds.kinds[type .. (i > 1 and i or '')] = {key, type} end
end

function seeds.type_of(key)
  return redis.call('TYPE', key)['ok']
end

-- A key of any other type is somebody's mistake: it holds no seeds, and the crawl goes on.
-- -> how many; and nil, or {key, its type, the type it should have} of the first that is of no type for seeds
function seeds.count()
  local count, problem = 0, nil
  for _, key in ipairs(SEEDS) do
    local type = seeds.type_of(key)
    if seeds.length[type] then
      count = count + redis.call(seeds.length[type], key)
    elseif type ~= 'none' then
      problem = problem or {key, type, 'list'}
    end
  end
  return count, problem
end

-- -> { {kind, score, seed}, … }
function seeds.take(n)
  local taken = {}
  for i, key in ipairs(SEEDS) do
    local type, wanted, suffix = seeds.type_of(key), n - #taken, i > 1 and i or ''
    if wanted <= 0 then break end
    if type == 'list' then
      for _, seed in ipairs(redis.call('LPOP', key, wanted) or {}) do
        taken[#taken + 1] = {'list' .. suffix, '0', seed}
      end
    elseif type == 'set' then
      for _, seed in ipairs(redis.call('SPOP', key, wanted)) do
        taken[#taken + 1] = {'set' .. suffix, '0', seed}
      end
    elseif type == 'zset' then
      local popped = redis.call('ZPOPMAX', key, wanted)
      for j = 1, #popped, 2 do taken[#taken + 1] = {'zset' .. suffix, popped[j + 1], popped[j]} end
    end
  end
  return taken
end

-- -> whether the seeds' key took it: it may have become another type since, or no place for seeds.
function seeds.put_back(kind, score, seed)
  local key, type = unpack(seeds.kinds[kind])
  local is = seeds.type_of(key)
  if is ~= 'none' then type = is end
  if type == 'list' then
    redis.call('LPUSH', key, seed)
  elseif type == 'set' then
    redis.call('SADD', key, seed)
  elseif type == 'zset' then
    redis.call('ZADD', key, score, seed)
  else
    return false
  end
  return true
end

return seeds
