-- Needs: keys
-- The filter of a user's own class with its own request_seen: it keeps its fingerprints itself, in any form, and the
-- exchange only gets requests that it has not seen. Its functions are those of store/filter/exact.lua.
-- is_of_any_type: DUPEFILTER need not be a set
local filter = {is_of_any_type = true}

function filter.types()
  return {{SEEN_STATE, 'none'}, {SEEN_CLEARED, 'list'}}
end

function filter.has() return false end
function filter.add() return true end
function filter.remove() return false end

function filter.add_in_turn(_, first, last)
  local known = {}
  for i = 1, last - first + 1 do known[i] = 0 end
  return known
end

-- Only a set can be counted.
function filter.count()
  local count = redis.pcall('SCARD', DUPEFILTER)
  return has_failed(count) and 0 or count
end

function filter.open() end

function filter.rare()
  return SEEN_CLEARED, SEEN_STATE
end

return filter
