-- Needs: keys
-- The exact filter: one set of fingerprints.
-- filter.has(fingerprint)     -> whether it was seen
-- filter.add(fingerprint)     -> whether it was new
-- filter.add_in_turn(list, first, last)  -> for each fingerprint of this part of the list: 1 if it was known, else 0,
--                           as filter.add() would find one after the other
-- filter.remove(fingerprint)  -> whether it was there
-- filter.count()              -> the number of fingerprints; the error if a key has a wrong type
-- filter.open()               called when a worker joins
-- filter.types()              -> its keys and their types. SEEN_STATE must not exist: if other workers use a compact
--                           filter, a worker with this one would crawl everything again
-- filter.rare()               -> its keys that do not exist in most crawls
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
  -- A fingerprint is in the list twice: it is new only the first time.
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

function filter.open() end

function filter.rare()
  return SEEN_CLEARED, SEEN_STATE
end

return filter
