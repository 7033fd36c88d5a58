-- Needs: keys, filter
-- Forget fingerprints: they no longer count as seen, nor as start requests that this crawl has had.
--
-- ARGV  n, then n fingerprints
-- Reply how many of them had been seen
local problem = wrong_type(types()) or wrong_type(filter.types())
if problem then return wrong_type_error(problem) end
local forgotten = 0
for _ = 1, number() do
  local fingerprint = argument()
  local started = redis.call('SREM', STARTED, fingerprint) == 1
  -- Unfiltered start requests are numbered, because start() may yield the same one several times.
  local again = 1
  while redis.call('SREM', STARTED, fingerprint .. '#' .. again) == 1 do again = again + 1 end
  if filter.remove(fingerprint) or started or again > 1 then forgotten = forgotten + 1 end
end
flush()
if forgotten > 0 and redis.call('EXISTS', META) == 1 then
  change_epoch()
  -- Without this, a worker could take the forgotten fingerprints for lost data.
  redis.call('HDEL', META, 'seen')
end
return forgotten
