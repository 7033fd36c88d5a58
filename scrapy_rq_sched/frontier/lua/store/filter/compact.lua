-- Needs: keys, store/seen, store/bucket_size
-- The compact filter: 62 bits of each fingerprint, as an integer, in many small sets. Redis keeps a small set of integers
-- as a sorted array, with 8 bytes for each. Functions that exact.lua does not have are for an import.
--
-- The sets, or buckets, are the leaves of a binary tree. Bucket n has the children 2n, for the lower half of its
-- range, and 2n + 1, for the upper half. The leaves are first .. 2 * first - 1. To grow, the filter splits the first
-- leaf. This is linear hashing (W. Litwin, Linear Hashing: A New Tool for File and Table Addressing, VLDB 1980). So
-- the filter needs no size in advance, and no step takes long. A bucket has *most* integers on average, and up to twice
-- as many shortly before it is split.
--
-- If DUPEFILTER has a set of whole fingerprints, it is from an exact filter. Each exchange converts some of them.
--
-- state: the fields of SEEN_STATE; level, range: the number of the first upper leaf, and an upper leaf's range; prefix:
-- of the buckets' keys; changed: by this script; converts: fingerprints of an exact filter are left
local filter = {}
local SPLITS, CONVERTED = 8, 250
local state, has_converted
at_begin(function() state, has_converted = nil, false end)

function filter.types()
  return {{DUPEFILTER, 'set'}, {SEEN_STATE, 'hash'}, {SEEN_CLEARED, 'list'}}
end

-- Set the first leaf, and the width and the range of the upper of the two levels on which the leaves are.
function filter.grow(first)
  state.first, state.level = first, 1
  while state.level * 2 <= first do state.level = state.level * 2 end
  state.range = 4294967296 / state.level
end

function filter.load()
  if state then return state end
  state = seen.state()
  if not state then
    -- A new name, so that leftover buckets of a cleared filter are not taken for this filter's.
    local time = redis.call('TIME')
    local name = string.format('%x%05x', time[1], time[2])
    state = {name = name, first = 1, count = 0, most = bucket_size(), changed = true}
  end
  state.prefix = seen.bucket_key(state.name, '')
  filter.grow(state.first)
  state.converts = redis.call('EXISTS', DUPEFILTER) == 1
  return state
end

-- -> the integer that stands for a fingerprint, and its first 32 bits, which select the bucket
local function member_of(fingerprint)
  -- Hash the fingerprint: it can be any text, so its first characters may be equal or not spread evenly.
  local digest = redis.sha1hex(fingerprint)
  local high, low = tonumber(string.sub(digest, 1, 8), 16), tonumber(string.sub(digest, 9, 16), 16)
  -- As text, because Lua's numbers are not exact for 62 bits; never with a leading 0.
  return string.format('%d%09d', high + 1, low % 1000000000), high
end

function filter.bucket(high)
  local number = state.level + math.floor(high / state.range)
  if number < state.first then number = 2 * state.level + math.floor(2 * high / state.range) end
  return state.prefix .. number
end

-- If a bucket's key has another type, somebody has overwritten it by mistake, and the bucket is lost: delete the key.
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

local function write()
  if state or redis.call('EXISTS', DUPEFILTER) == 1 then filter.load() end
  if not state then return end
  -- Converting must not fill buckets faster than they are split, nor make an exchange with many new URLs longer.
  if state.converts and not has_converted and state.count <= state.first * state.most then
    has_converted = true
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
writers[#writers + 1] = write

function filter.open()
  -- The frontier may have moved to a server with other settings.
  if redis.call('EXISTS', SEEN_STATE) == 1 then redis.call('HSET', SEEN_STATE, 'most', bucket_size()) end
end

function filter.rare()
  return SEEN_CLEARED
end

return filter
