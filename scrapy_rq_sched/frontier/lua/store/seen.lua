-- Needs: keys
-- The fingerprints seen: functions for both kinds of filter, exact and compact. Each kind has its own functions in
-- filter/.
-- seen.join(frontier)   note that *frontier* uses the filter
-- seen.clear(frontier)  clear the filter, and leave slow work to seen.sweep(). -> ''; or another frontier that uses the
--                       filter, and then it is not cleared
-- seen.clear()          clear the filter, whether other frontiers use it or not
-- seen.sweep(n)         delete at most n buckets of cleared filters. -> whether there are more
--
-- SEEN_STATE, a hash: name, which is a part of the buckets' keys; first, count, most: see store/filter/compact.lua.
-- SEEN_CLEARED, a list: cleared filters that still have buckets, as '<name> <next> <last>'
-- SEEN_FRONTIERS, a set: the frontiers that use this filter, as the prefixes of their keys
local seen = {}

function seen.bucket_key(name, number)
  return DUPEFILTER .. ':' .. name .. ':' .. number
end

-- -> SEEN_STATE, as a table of name, first, count and most; nil if it is missing or not valid
function seen.state()
  local values = redis.pcall('HMGET', SEEN_STATE, 'name', 'first', 'count', 'most')
  local name, first, count, most = values[1], tonumber(values[2]), tonumber(values[3]), tonumber(values[4])
  -- The comparisons with 0 also fail for NaN.
  local whole = first and count and most and first % 1 == 0 and count % 1 == 0 and most % 1 == 0
  if name and whole and first >= 1 and first <= 2147483648 and count < 2 ^ 53 and most >= 1 then
    return {name = name, first = first, count = math.max(0, count), most = most}
  end
end

function seen.join(frontier)
  redis.call('SADD', SEEN_FRONTIERS, frontier)
end

-- Values of other types at these keys do not keep a filter from being cleared.
function seen.clear(frontier)
  if frontier then
    redis.pcall('SREM', SEEN_FRONTIERS, frontier)
    local others = redis.pcall('SMEMBERS', SEEN_FRONTIERS)
    for _, other in ipairs(others.err and {} or others) do
      -- If somebody has deleted that frontier's keys, it no longer counts.
      if redis.call('EXISTS', other .. ':meta') == 1 then return other end
    end
  end
  local cleared = seen.state()
  -- UNLINK frees millions of entries in the background. It comes first: a full Redis would refuse RPUSH as a first
  -- write.
  redis.call('UNLINK', DUPEFILTER, SEEN_STATE, SEEN_FRONTIERS)
  if cleared then
    local last = 2 * cleared.first - 1
    redis.pcall('RPUSH', SEEN_CLEARED, string.format('%s %.0f %.0f', cleared.name, cleared.first, last))
  end
  return ''
end

function seen.sweep(n)
  local entry = redis.call('LINDEX', SEEN_CLEARED, 0)
  if not entry then return false end
  local name, from, last = string.match(entry, '^(%S+) (%d+) (%d+)$')
  from, last = tonumber(from), tonumber(last)
  local makes_sense = last and from <= last and last < 4294967296
  local next_one = makes_sense and math.min(from + n, last + 1) or 0
  for number = from or 1, next_one - 1 do
    redis.call('UNLINK', seen.bucket_key(name, number))
  end
  if makes_sense and next_one <= last then
    redis.call('LSET', SEEN_CLEARED, 0, string.format('%s %.0f %.0f', name, next_one, last))
    return true
  end
  redis.call('LPOP', SEEN_CLEARED)
  return redis.call('EXISTS', SEEN_CLEARED) == 1
end

return seen -- seldom used
