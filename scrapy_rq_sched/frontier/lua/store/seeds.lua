-- Needs: keys
-- Seeds. Each key in SEEDS is a list, which is read from its head as in scrapy-redis; or a set; or a sorted set, which
-- is read from its highest score. The first key is read before the second.
-- has_none: a script has just found that there is no seed
local seeds = {}
at_begin(function() seeds.has_none = false end)
seeds.length = {list = 'LLEN', set = 'SCARD', zset = 'ZCARD'}

-- kind -> {key, its type}: the origin of a seed. The kind is 'list', 'set' or 'zset'; from the second key on, it has
-- the key's number: 'list2'.
at_begin(function()
  seeds.kinds = {}
  for i, key in ipairs(SEEDS) do
    for type in pairs(seeds.length) do seeds.kinds[type .. (i > 1 and i or '')] = {key, type} end
  end
end)

function seeds.type_of(key)
  return redis.call('TYPE', key)['ok']
end

-- A key of any other type is a mistake: it counts as empty, and the crawl continues.
-- -> the number of seeds; and nil, or {key, its type, a right type} for the first key of a wrong type
function seeds.count()
  if seeds.has_none then return 0 end
  local count, problem = 0, nil
  for _, key in ipairs(SEEDS) do
    -- Nearly always there is a list, or nothing.
    local length, type = redis.pcall('LLEN', key), nil
    if has_failed(length) then
      type = seeds.type_of(key)
      length = seeds.length[type] and redis.call(seeds.length[type], key)
    end
    if length then count = count + length else problem = problem or {key, type, 'list'} end
  end
  return count, problem
end

-- -> { {kind, score, seed}, … }
function seeds.take(n)
  local taken = {}
  for i, key in ipairs(SEEDS) do
    local wanted, suffix = n - #taken, i > 1 and i or ''
    if wanted <= 0 then break end
    local popped = redis.pcall('LPOP', key, wanted)
    local type = has_failed(popped) and seeds.type_of(key)
    if not popped and #SEEDS == 1 then seeds.has_none = true end
    if not type then
      for _, seed in ipairs(popped or {}) do taken[#taken + 1] = {'list' .. suffix, '0', seed} end
    elseif type == 'set' then
      for _, seed in ipairs(redis.call('SPOP', key, wanted)) do
        taken[#taken + 1] = {'set' .. suffix, '0', seed}
      end
    elseif type == 'zset' then
      popped = redis.call('ZPOPMAX', key, wanted)
      for j = 1, #popped, 2 do taken[#taken + 1] = {'zset' .. suffix, popped[j + 1], popped[j]} end
    end
  end
  return taken
end

-- Put a seed back. -> whether that was possible: its key may have another type by now
function seeds.put_back(kind, score, seed)
  seeds.has_none = false
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
