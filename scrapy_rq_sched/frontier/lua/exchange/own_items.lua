-- Needs: keys, number_of, slots/slots, store/pools, store/pool_items, fleet/fleet, exchange/header
-- The items of pools that the worker has for its life: one of each of these pools, or none of any. Otherwise two workers could
-- wait for each other's.
--
-- META's field item_wanted: '<worker> <time>': the worker that lacked one last, and when (milliseconds)
-- step: own_items: pool -> {item, value, cookies} for what is new to the worker; lacks_item: a pool of which it needs one, and
-- there is none: then it begins nothing; wants_pools: whether the pools of its settings must be sent
local own_items = {}
-- How many exchanges of a worker that lacks an item look once for uses of workers that are gone.
local CHECKED = 16
-- Milliseconds: after how long without a request a worker leaves its items to one that waits; for how long that one counts.
local IDLE, WANTED = 5000, 10000

-- -> whether the worker, which has had no request for a while, leaves its items to another one: no worker has a request, and
-- perhaps only that one can go on, because it has requests in its memory or offers what those that wait need
local function leaves(step)
  if (header.idle or 0) <= IDLE or not (step.order == '' or step.order == 'drain') then return false end
  local name, at = string.match(redis.call('HGET', META, 'item_wanted') or '', '^(%S+) (%d+)$')
  if not name or name == step.worker or slots.now() - number_of(at, 0) >= WANTED then return false end
  local is_needed = redis.pcall('HGET', WORKER .. name, 'busy') == '1' or step.waiting > 0 and slots.has_lanes
  return is_needed and fleet.lately(step.now) == 0
end

-- -> a pool of which the worker can have no item; nil if it can have one of each
local function lacking(pools_wanted, worker, in_flight)
  for pool, known in pairs(pools_wanted) do
    if not pools.may_have(pool, worker, in_flight[pool], known) then return pool end
  end
end

-- Give the worker its items. header.own_items: pool -> the item that it knows; header.own_in_flight: the pools with whose items it
-- has requests in flight: it keeps these until they have ended
function own_items.learn(step)
  step.wants_pools = not pools.are_used() or nil
  local wanted, in_flight = header.own_items, {}
  if not wanted then return end
  for _, pool in ipairs(header.own_in_flight or {}) do in_flight[pool] = true end
  local is_for_others = step.order == 'wait' or leaves(step)
  local lacked = (is_for_others or step.wants_pools) and next(wanted) or lacking(wanted, step.worker, in_flight)
  if not lacked then
    for pool, known in pairs(wanted) do
      local item = pools.of_worker(pool, step.worker, known)
      if item ~= known then
        step.own_items = step.own_items or {}
        step.own_items[pool] = {item, unpack(pool_items.contents(pool, item))}
      end
    end
    return
  end
  for pool in pairs(wanted) do
    if not in_flight[pool] then pools.leave(pool, step.worker) end
  end
  step.lacks_item = lacked
  if step.order == '' then step.order = 'item' end
  if not (is_for_others or step.wants_pools) then
    redis.call('HSET', META, 'item_wanted', step.worker .. ' ' .. whole(slots.now()))
  end
  if pools.are_used() and header.exchange % CHECKED == 0 then pools.check_uses() end
end

return own_items -- seldom used
