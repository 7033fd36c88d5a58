-- Needs: keys, seen
-- Seen, exactly: one set of fingerprints.
-- seen.has(fingerprint)     -> was it seen?
-- seen.add(fingerprint)     -> was it new?
-- seen.add_in_turn(fingerprints)  -> for each, as seen.add() would tell one after the other
-- seen.remove(fingerprint)  -> was it there?
-- seen.count()              -> how many
-- seen.settle()             at the end of a step: what is left to do
-- seen.open()               when a worker joins
-- seen.is_wrong()           -> may SEEN_STATE be of another type than seen.types says?
-- Whoever asked this filter alone, where another keeps a compact one, would crawl all of it again.
seen.types = {{DUPEFILTER, 'set'}, {SEEN_STATE, 'none'}, {SEEN_CLEARED, 'list'}}

function seen.has(fingerprint)
  return redis.call('SISMEMBER', DUPEFILTER, fingerprint) == 1
end

function seen.add(fingerprint)
  return redis.call('SADD', DUPEFILTER, fingerprint) == 1
end

function seen.add_in_turn(fingerprints)
  local added, new = {}, {}
  in_chunks(fingerprints, function(...)
    for _, is_known in ipairs(redis.call('SMISMEMBER', DUPEFILTER, ...)) do added[#added + 1] = is_known == 0 end
  end)
  for i, fingerprint in ipairs(fingerprints) do
    added[i] = added[i] and not new[fingerprint]
    new[fingerprint] = new[fingerprint] or added[i]
  end
  in_chunks(fingerprints, function(...) redis.call('SADD', DUPEFILTER, ...) end)
  return added
end

function seen.remove(fingerprint)
  return redis.call('SREM', DUPEFILTER, fingerprint) == 1
end

function seen.count()
  return redis.call('SCARD', DUPEFILTER)
end

function seen.settle() end
function seen.open() end

function seen.is_wrong()
  return redis.call('EXISTS', SEEN_STATE) == 1
end
