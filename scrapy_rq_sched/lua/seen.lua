-- What was seen: DUPEFILTER and what a compact filter has beside it, by whichever of the two it was kept.
-- seen_clear()          forget all, and leave what takes long to seen_sweep()
-- seen_sweep(n)         -> is there more? Deletes at most n of what is left of cleared filters.
--
-- SEEN_STATE, a hash: name, by which this filter's buckets go; first, count, most: see seen_compact.lua.
-- SEEN_CLEARED, a list of cleared filters whose buckets are still there: '<name> <next> <last>'
local SEEN_STATE, SEEN_CLEARED = DUPEFILTER .. ':buckets', DUPEFILTER .. ':cleared'

local function bucket_key(name, number)
  return DUPEFILTER .. ':' .. name .. ':' .. number
end

-- Whatever somebody may have put at these keys, a crawl that is over is forgotten.
local function seen_clear()
  local state = redis.pcall('HMGET', SEEN_STATE, 'name', 'first')
  local first = tonumber(state[2])
  if state[1] and first then
    redis.pcall('RPUSH', SEEN_CLEARED, string.format('%s %.0f %.0f', state[1], first, 2 * first - 1))
  end
  -- UNLINK: to free millions of entries is not waited for.
  redis.call('UNLINK', DUPEFILTER, SEEN_STATE)
end

local function seen_sweep(n)
  local entry = redis.call('LINDEX', SEEN_CLEARED, 0)
  if not entry then return false end
  local name, from, last = string.match(entry, '^(%S+) (%d+) (%d+)$')
  from, last = tonumber(from or 1), tonumber(last or 0)
  for number = from, math.min(from + n - 1, last) do
    redis.call('UNLINK', bucket_key(name, number))
  end
  if from + n <= last then
    redis.call('LSET', SEEN_CLEARED, 0, string.format('%s %.0f %.0f', name, from + n, last))
    return true
  end
  redis.call('LPOP', SEEN_CLEARED)
  return redis.call('EXISTS', SEEN_CLEARED) == 1
end
