-- Needs: keys, seen, seen_size
-- Seen, compactly: 62 bits of each fingerprint, as an integer, in many small sets. Redis keeps a set of few
-- integers as a sorted array, 8 bytes each. The functions are those of seen_exact.lua.
--
-- The sets, or buckets, are the leaves of a binary tree. Bucket n has the children 2n and 2n + 1; in the
-- lower half of its range is what goes to the one, in the upper half what goes to the other. Leaves are
-- first .. 2 * first - 1. To grow, the first one is split: that is linear hashing (W. Litwin, Linear Hashing:
-- A New Tool for File and Table Addressing, VLDB 1980). So nobody chooses a size, and no step takes long.
-- There are *most* a bucket on average, up to twice as many in those that are next to be split.
--
-- A set of whole fingerprints in DUPEFILTER is from an exact filter: it is converted, some in each exchange.
seen.types = {{DUPEFILTER, 'set'}, {SEEN_STATE, 'hash'}, {SEEN_CLEARED, 'list'}}
local SPLITS, CONVERTED = 8, 250
local state, changed, converts

-- The leaves are on two levels; width and depth of the upper one.
local function seen_grow(first)
  state.first, state.level = first, 1
  while state.level * 2 <= first do state.level = state.level * 2 end
  state.range = 4294967296 / state.level
end

local function seen_load()
  if state then return state end
  state = seen_state()
  if not state then
    -- Its name is like none before it, so that what is left of a cleared one is not taken for it.
    local time = redis.call('TIME')
    local name = string.format('%x%05x', time[1], time[2])
    state, changed = {name = name, first = 1, count = 0, most = seen_most()}, true
  end
  state.prefix = bucket_key(state.name, '')
  seen_grow(state.first)
  converts = redis.call('EXISTS', DUPEFILTER) == 1
  return state
end

-- -> the integer that stands for a fingerprint, and its first 32 bits, by which it has its bucket
local function seen_member(fingerprint)
  -- A fingerprint may be any text, so its first digits need not tell it from others, nor be spread evenly.
  local digest = redis.sha1hex(fingerprint)
  local high, low = tonumber(string.sub(digest, 1, 8), 16), tonumber(string.sub(digest, 9, 16), 16)
  -- As text, which is exact where Lua's numbers are not; never with a leading 0.
  return string.format('%d%09d', high + 1, low % 1000000000), high
end

local function seen_bucket(high)
  local number = state.level + math.floor(high / state.range)
  if number < state.first then number = 2 * state.level + math.floor(2 * high / state.range) end
  return state.prefix .. number
end

-- What is no set at a bucket's key, nobody but a mistake has put there. What was in the bucket is lost.
local function bucket_call(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if string.find(reply.err, 'WRONGTYPE', 1, true) then redis.call('DEL', key) end
  return redis.call(command, key, ...)
end

local function buckets_are_full()
  return state.count > state.first * state.most
end

local function bucket_split()
  local number = state.first
  local border = string.format('%d000000000', (number - state.level + 0.5) * state.range + 1)
  local lower, upper = {}, {}
  for _, member in ipairs(bucket_call('SMEMBERS', state.prefix .. number)) do
    if #member < #border or #member == #border and member < border then
      lower[#lower + 1] = member
    else
      upper[#upper + 1] = member
    end
  end
  in_chunks(lower, function(...) bucket_call('SADD', state.prefix .. 2 * number, ...) end)
  in_chunks(upper, function(...) bucket_call('SADD', state.prefix .. 2 * number + 1, ...) end)
  redis.call('DEL', state.prefix .. number)
  seen_grow(number + 1)
end

local function compact_add(fingerprint)
  local member, high = seen_member(fingerprint)
  if bucket_call('SADD', seen_bucket(high), member) == 0 then return false end
  state.count, changed = state.count + 1, true
  return true
end

function seen.has(fingerprint)
  seen_load()
  if converts and redis.call('SISMEMBER', DUPEFILTER, fingerprint) == 1 then return true end
  local member, high = seen_member(fingerprint)
  return bucket_call('SISMEMBER', seen_bucket(high), member) == 1
end

function seen.add(fingerprint)
  seen_load()
  if converts and redis.call('SISMEMBER', DUPEFILTER, fingerprint) == 1 then return false end
  return compact_add(fingerprint)
end

function seen.add_in_turn(fingerprints)
  local added = {}
  for i, fingerprint in ipairs(fingerprints) do added[i] = seen.add(fingerprint) end
  return added
end

function seen.remove(fingerprint)
  seen_load()
  local member, high = seen_member(fingerprint)
  local removed = bucket_call('SREM', seen_bucket(high), member)
  if removed == 1 then state.count, changed = state.count - 1, true end
  return converts and redis.call('SREM', DUPEFILTER, fingerprint) == 1 or removed == 1
end

function seen.count()
  return (tonumber(redis.call('HGET', SEEN_STATE, 'count')) or 0) + redis.call('SCARD', DUPEFILTER)
end

function seen.settle()
  if state or redis.call('EXISTS', DUPEFILTER) == 1 then seen_load() end
  if not state then return end
  -- What is converted must not make buckets faster than they are split, nor a step with many new URLs longer.
  if converts and not buckets_are_full() then
    for _, fingerprint in ipairs(redis.call('SPOP', DUPEFILTER, CONVERTED)) do compact_add(fingerprint) end
  end
  if not changed then return end
  for _ = 1, SPLITS do
    if not buckets_are_full() then break end
    bucket_split()
  end
  redis.call('HSET', SEEN_STATE, 'name', state.name, 'first', string.format('%.0f', state.first),
    'count', string.format('%.0f', state.count), 'most', state.most)
end

function seen.open()
  -- Another server may be set up otherwise.
  if redis.call('EXISTS', SEEN_STATE) == 1 then redis.call('HSET', SEEN_STATE, 'most', seen_most()) end
end

function seen.is_wrong()
  local reply = redis.pcall('HLEN', SEEN_STATE)
  return type(reply) == 'table' and reply.err
end
