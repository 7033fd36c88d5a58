-- Seeds: a list read from its head, as scrapy-redis does; or a set, or a sorted set from its top.
local SEED_LENGTH = {list = 'LLEN', set = 'SCARD', zset = 'ZCARD'}

-- A key of any other type is somebody's mistake: it holds no seeds, and the crawl goes on.
local function seed_type()
  local kind = redis.call('TYPE', SEEDS)['ok']
  return kind
end

local function seed_count(kind)
  return SEED_LENGTH[kind] and redis.call(SEED_LENGTH[kind], SEEDS) or 0
end

-- -> { {kind, score, seed}, … }
local function seed_take(kind, n)
  local taken = {}
  if kind == 'list' then
    for i, seed in ipairs(redis.call('LPOP', SEEDS, n) or {}) do taken[i] = {'list', '0', seed} end
  elseif kind == 'set' then
    for i, seed in ipairs(redis.call('SPOP', SEEDS, n)) do taken[i] = {'set', '0', seed} end
  elseif kind == 'zset' then
    local popped = redis.call('ZPOPMAX', SEEDS, n)
    for i = 1, #popped, 2 do taken[#taken + 1] = {'zset', popped[i + 1], popped[i]} end
  end
  return taken
end

-- -> whether the seeds' key took it: it may have become another type since, or no place for seeds.
local function seed_put_back(kind, score, seed)
  local is = seed_type()
  if is ~= 'none' then kind = is end
  if kind == 'list' then
    redis.call('LPUSH', SEEDS, seed)
  elseif kind == 'set' then
    redis.call('SADD', SEEDS, seed)
  elseif kind == 'zset' then
    redis.call('ZADD', SEEDS, score, seed)
  else
    return false
  end
  return true
end
