-- Needs: keys
-- Seen, exactly: one set of fingerprints.
-- filter.has(fingerprint)     -> was it seen?
-- filter.add(fingerprint)     -> was it new?
-- filter.add_in_turn(list, first, last)  -> for each fingerprint of this part of the list 1 if it was there before,
--                           else 0: as filter.add() would tell one after the other
-- filter.remove(fingerprint)  -> was it there?
-- filter.count()              -> how many; the error, if a key is of another type
-- filter.settle()             at the end of a step: what is left to do
-- filter.open()               when a worker joins
-- filter.types()            which keys it has, and of what types
-- filter.rare()             -> those of its keys that mostly are not there
-- Whoever asked this filter alone, where another keeps a compact one, would crawl all of it again.
local filter = {}

function filter.types()
  return {{DUPEFILTER, 'set'}, {SEEN_STATE, 'none'}, {SEEN_CLEARED, 'list'}}
end

function filter.has(fingerprint)
  return redis.call('SISMEMBER', DUPEFILTER, fingerprint) == 1
end

function filter.add(fingerprint)
  return redis.call('SADD', DUPEFILTER, fingerprint) == 1
end

function filter.add_in_turn(list, first, last)
  local known, n_new, n_added = {}, 0, 0
  in_chunks(list, function(...)
    for _, is_known in ipairs(redis.call('SMISMEMBER', DUPEFILTER, ...)) do
      known[#known + 1] = is_known
      n_new = n_new + 1 - is_known
    end
    n_added = n_added + redis.call('SADD', DUPEFILTER, ...)
  end, first, last)
  if n_added == n_new then return known end
  -- One of them is there twice: it is new only the first time.
  local seen_here = {}
  for i = 1, #known do
    local fingerprint = list[first + i - 1]
    if seen_here[fingerprint] then known[i] = 1 end
    seen_here[fingerprint] = true
  end
  return known
end

function filter.remove(fingerprint)
  return redis.call('SREM', DUPEFILTER, fingerprint) == 1
end

function filter.count()
  return redis.pcall('SCARD', DUPEFILTER)
end

function filter.settle() end
function filter.open() end

function filter.rare()
  return SEEN_CLEARED, SEEN_STATE
end

return filter
