-- Needs: keys, seen
-- Seen, exactly: one set of fingerprints.
-- seen.has(fingerprint)     -> was it seen?
-- seen.add(fingerprint)     -> was it new?
-- seen.remove(fingerprint)  -> was it there?
-- seen.count()              -> how many
-- seen.settle()             at the end of a step: what is left to do
-- seen.open()               when a worker joins
-- Whoever asked this filter alone, where another keeps a compact one, would crawl all of it again.
seen.types = {{DUPEFILTER, 'set'}, {SEEN_STATE, 'none'}, {SEEN_CLEARED, 'list'}}

function seen.has(fingerprint)
  return redis.call('SISMEMBER', DUPEFILTER, fingerprint) == 1
end

function seen.add(fingerprint)
  return redis.call('SADD', DUPEFILTER, fingerprint) == 1
end

function seen.remove(fingerprint)
  return redis.call('SREM', DUPEFILTER, fingerprint) == 1
end

function seen.count()
  return redis.call('SCARD', DUPEFILTER)
end

function seen.settle() end
function seen.open() end
