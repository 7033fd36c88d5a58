-- Needs: keys, store/pool_items, fleet/import_target
-- One step of an import: restore pools, or items of pools. The spider may have some: they stay when a crawl finishes.
--
-- ARGV  id, step (its number, from 1), n, then n times: field, value of POOLS;
--       n, then n times: pool, item, m, then m times: field, value
-- Reply {''}; {'lost'}: this import is no longer under way, and nothing was changed
local id, step = argument(), number()
local done = import_target.step(id, step)
if done then return done end
for _ = 1, number() do redis.call('HSET', POOLS, argument(), argument()) end
for _ = 1, number() do
  local pool, item, fields = argument(), argument(), {}
  for i = 1, 2 * number() do fields[i] = argument() end
  pool_items.restore(pool, item, fields)
end
return {''}
