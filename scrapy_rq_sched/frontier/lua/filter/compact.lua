-- Needs: keys, seen, bucket_size
-- Seen, compactly: 62 bits of each fingerprint, as an integer, in many small sets. Redis keeps a set of few
-- integers as a sorted array, 8 bytes each. The functions are those of exact.lua; others are for an import.
--
-- The sets, or buckets, are the leaves of a binary tree. Bucket n has the children 2n and 2n + 1; in the
-- lower half of its range is what goes to the one, in the upper half what goes to the other. Leaves are
-- first .. 2 * first - 1. To grow, the first one is split: that is linear hashing (W. Litwin, Linear Hashing:
-- A New Tool for File and Table Addressing, VLDB 1980). So nobody chooses a size, and no step takes long.
-- There are *most* a bucket on average, up to twice as many in those that are next to be split.
--
-- A set of whole fingerprints in DUPEFILTER is from an exact filter: it is converted, some in each exchange.
--
-- state: as in SEEN_STATE; and level, range: of the tree's upper leaves, prefix: of its buckets;
-- changed: by this script; converts: there is still something of an exact filter
local filter = {}
local SPLITS, CONVERTED = 8, 250
local state

function filter.types()
  return {{DUPEFILTER, 'set'}, {SEEN_STATE, 'hash'}, {SEEN_CLEARED, 'list'}}
end

-- The leaves are on two levels; width and depth of the upper one.
function filter.grow(first)
  state.first, state.level = first, 1
  while state.level * 2 <= first do state.level = state.level * 2 end
  state.range = 4294967296 / state.level
end

function filter.load()
  if state then return state end
  state = seen.state()
  if not state then
    -- Its name is like none before it, so that what is left of a cleared one is not taken for it.
    local time = redis.call('TIME')
    local name = string.format('%x%05x', time[1], time[2])
    state = {name = name, first = 1, count = 0, most = bucket_size(), changed = true}
  end
  state.prefix = seen.bucket_key(state.name, '')
  filter.grow(state.first)
  state.converts = redis.call('EXISTS', DUPEFILTER) == 1
  return state
end

-- -> the integer that stands for a fingerprint, and its first 32 bits, by which it has its bucket
local function member_of(fingerprint)
  -- A fingerprint may be any text, so its first digits need not tell it from others, nor be spread evenly.
  local digest = redis.sha1hex(fingerprint)
  local high, low = tonumber(string.sub(digest, 1, 8), 16), tonumber(string.sub(digest, 9, 16), 16)
  -- As text, which is exact where Lua's numbers are not; never with a leading 0.
  return string.format('%d%09d', high + 1, low % 1000000000), high
end

function filter.bucket(high)
  local number = state.level + math.floor(high / state.range)
  if number < state.first then number = 2 * state.level + math.floor(2 * high / state.range) end
  return state.prefix .. number
end

-- What is no set at a bucket's key, nobody but a mistake has put there. What was in the bucket is lost.
function filter.call(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if string.find(reply.err, 'WRONGTYPE', 1, true) then redis.call('DEL', key) end
  return redis.call(command, key, ...)
end

local function bucket_split()
  local number = state.first
  local border = string.format('%d000000000', (number - state.level + 0.5) * state.range + 1)
  local lower, upper = {}, {}
  for _, member in ipairs(filter.call('SMEMBERS', state.prefix .. number)) do
    if #member < #border or #member == #border and member < border then
      lower[#lower + 1] = member
    else
      upper[#upper + 1] = member
    end
  end
  in_chunks(lower, function(...) filter.call('SADD', state.prefix .. 2 * number, ...) end)
  in_chunks(upper, function(...) filter.call('SADD', state.prefix .. 2 * number + 1, ...) end)
  redis.call('DEL', state.prefix .. number)
  filter.grow(number + 1)
end

local function add_member(fingerprint)
  local member, high = member_of(fingerprint)
  if filter.call('SADD', filter.bucket(high), member) == 0 then return false end
  state.count, state.changed = state.count + 1, true
  return true
end

function filter.has(fingerprint)
  filter.load()
  if state.converts and redis.call('SISMEMBER', DUPEFILTER, fingerprint) == 1 then return true end
  local member, high = member_of(fingerprint)
  return filter.call('SISMEMBER', filter.bucket(high), member) == 1
end

function filter.add(fingerprint)
  filter.load()
  if state.converts and redis.call('SISMEMBER', DUPEFILTER, fingerprint) == 1 then return false end
  return add_member(fingerprint)
end

function filter.add_in_turn(list, first, last)
  local known = {}
  for i = first, last do known[i - first + 1] = filter.add(list[i]) and 0 or 1 end
  return known
end

function filter.remove(fingerprint)
  filter.load()
  local member, high = member_of(fingerprint)
  local removed = filter.call('SREM', filter.bucket(high), member)
  if removed == 1 then state.count, state.changed = state.count - 1, true end
  return state.converts and redis.call('SREM', DUPEFILTER, fingerprint) == 1 or removed == 1
end

function filter.count()
  local compact, exact = redis.pcall('HGET', SEEN_STATE, 'count'), redis.pcall('SCARD', DUPEFILTER)
  if has_failed(compact) then return compact end
  return has_failed(exact) and exact or (tonumber(compact) or 0) + exact
end

function filter.settle()
  if state or redis.call('EXISTS', DUPEFILTER) == 1 then filter.load() end
  if not state then return end
  -- What is converted must not make buckets faster than they are split, nor a step with many new URLs longer.
  if state.converts and state.count <= state.first * state.most then
    for _, fingerprint in ipairs(redis.call('SPOP', DUPEFILTER, CONVERTED)) do add_member(fingerprint) end
  end
  if not state.changed then return end
  for _ = 1, SPLITS do
    if state.count <= state.first * state.most then break end
    bucket_split()
  end
  redis.call('HSET', SEEN_STATE, 'name', state.name, 'first', string.format('%.0f', state.first),
    'count', string.format('%.0f', state.count), 'most', state.most)
end

function filter.open()
  -- Another server may be set up otherwise.
  if redis.call('EXISTS', SEEN_STATE) == 1 then redis.call('HSET', SEEN_STATE, 'most', bucket_size()) end
end

function filter.rare()
  return SEEN_CLEARED
end

return filter
