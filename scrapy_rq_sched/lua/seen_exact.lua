-- Seen, exactly: one set of fingerprints.
-- seen_has(fingerprint)     -> was it seen?
-- seen_add(fingerprint)     -> was it new?
-- seen_remove(fingerprint)  -> was it there?
-- seen_count()              -> how many
-- seen_settle()             at the end of a step: what is left to do
-- seen_open()               when a worker joins
-- Whoever asked this filter alone, where another keeps a compact one, would crawl all of it again.
local SEEN_TYPES = {{DUPEFILTER, 'set'}, {SEEN_STATE, 'none'}, {SEEN_CLEARED, 'list'}}

local function seen_has(fingerprint)
  return redis.call('SISMEMBER', DUPEFILTER, fingerprint) == 1
end

local function seen_add(fingerprint)
  return redis.call('SADD', DUPEFILTER, fingerprint) == 1
end

local function seen_remove(fingerprint)
  return redis.call('SREM', DUPEFILTER, fingerprint) == 1
end

local function seen_count()
  return redis.call('SCARD', DUPEFILTER)
end

local function seen_settle() end
local function seen_open() end
