-- Needs: keys, filter
-- Have fingerprints count as not seen, nor as those of start requests that this crawl has had.
--
-- ARGV  n, then n fingerprints
-- Reply how many of them were seen
local problem = wrong_type(types()) or wrong_type(filter.types())
if problem then return wrong_type_error(problem) end
local forgotten = 0
for _ = 1, number() do
  local fingerprint = argument()
  local started = redis.call('SREM', STARTED, fingerprint) == 1
  -- What start() yields unfiltered is numbered, for it may yield it several times.
  local again = 1
  while redis.call('SREM', STARTED, fingerprint .. '#' .. again) == 1 do again = again + 1 end
  if filter.remove(fingerprint) or started or again > 1 then forgotten = forgotten + 1 end
end
filter.settle()
if forgotten > 0 and redis.call('EXISTS', META) == 1 then
  change_epoch()
  -- By this a worker would know that what was seen is gone, and take it for a mishap.
  redis.call('HDEL', META, 'seen')
end
return forgotten
