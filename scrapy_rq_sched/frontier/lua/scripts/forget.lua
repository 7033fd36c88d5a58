-- Needs: keys, filter
-- Forget fingerprints: they no longer count as seen, nor as start requests that this crawl has had.
--
-- ARGV  n, then n fingerprints
-- Reply how many of them had been seen
local problem = wrong_type(types()) or wrong_type(filter.types()) or wrong_type({{ITEMS_FORGOTTEN, 'hash'}})
if problem then return wrong_type_error(problem) end
local forgotten, has_ids = 0, redis.call('HEXISTS', META, 'item_ids') == 1
for _ = 1, number() do
  local fingerprint = argument()
  local started = redis.call('SREM', STARTED, fingerprint) == 1
  -- Unfiltered start requests are numbered, because start() may yield the same one several times.
  local again = 1
  while redis.call('SREM', STARTED, fingerprint .. '#' .. again) == 1 do again = again + 1 end
  if filter.remove(fingerprint) or started or again > 1 then
    forgotten = forgotten + 1
    -- Its page is crawled once more on purpose: its items get other identities (see exchange/page_items.lua).
    if has_ids then redis.call('HINCRBY', ITEMS_FORGOTTEN, 'f' .. string.sub(redis.sha1hex(fingerprint), 1, 20), 1) end
  end
end
if has_ids and forgotten > 0 then redis.call('HSET', META, 'item_ids_forgotten', 1) end
flush()
if forgotten > 0 and redis.call('EXISTS', META) == 1 then
  change_epoch()
  -- Without this, a worker could take the forgotten fingerprints for lost data.
  redis.call('HDEL', META, 'seen')
end
return forgotten
