-- Needs: keys, slots/slots, store/pools, store/pool_items
-- Store the pools of a worker's settings, after it has joined; or change one as an operator wants it.
--
-- ARGV  'fill', worker, n, then n times: pool, limits, m, then m times: item, value, own limits
--       'add', pool, limits, n, then n times: item, value, own limits       limits: only used if the pool is new
--         value: '' for an item that is there, to use it again
--       'remove', pool, n items
--       'rest', pool, item, milliseconds, why
--       'retire', pool, item, reason
-- Reply how many items it concerned; 0 if there is no such item
--       limits: see store/pool_items.lua
-- May be repeated.
local deed = argument()

-- -> whether no other worker is alive, so that items that are no longer in the settings can be removed
local function is_alone(worker)
  local others = 0
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '(' .. server_time(), '+inf')) do
    if name ~= worker then others = others + 1 end
  end
  return others == 0
end

if deed == 'fill' then
  local alone = is_alone(argument())
  pools.use()
  for _ = 1, number() do
    local pool, limits, names = argument(), argument(), {}
    pool_items.define(pool, limits)
    for _ = 1, number() do
      local item, value, own = argument(), argument(), argument()
      names[item] = true
      pool_items.add(pool, item, value, own, true)
    end
    if alone then pool_items.keep_only(pool, names) end
  end
  pools.check_uses()
  return 1
end
local pool, done = argument(), 0
if deed == 'add' then
  local limits = argument()
  if redis.call('HEXISTS', POOLS, pool) == 0 then pool_items.define(pool, limits) end
  for _ = 1, number() do
    local item, value, own = argument(), argument(), argument()
    local is_there
    if value == '' then
      is_there = pool_items.use_again(pool, item)
    else
      is_there = pool_items.add(pool, item, value, own, false)
    end
    if is_there then done = done + 1 end
  end
elseif deed == 'remove' then
  for _ = 1, number() do
    if pool_items.remove(pool, argument(), false) then done = done + 1 end
  end
elseif deed == 'rest' then
  local item, time, why = argument(), number(), argument()
  done = pool_items.rest(pool, item, slots.now() + time, why) and 1 or 0
elseif deed == 'retire' then
  local item, reason = argument(), argument()
  done = pool_items.retire(pool, item, reason) and 1 or 0
end
return done
