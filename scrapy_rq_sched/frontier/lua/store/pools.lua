-- Needs: keys, number_of, slots/slots, slots/lanes, store/leases, store/pool_items
-- The users of the items of pools: see store/pool_items.lua.
--
-- A request that needs an item waits in a lane: the pool's name, after '~', is the last of its needs, and a worker that has the
-- pool in its settings offers it. The name of the item is in the lease, after a '#': it is in use as long as the lease is there.
-- META's field pools is there if the crawl uses any.
local pools = {}
-- How many uses are looked at to find those of workers that are gone.
local LOOKED_AT = 10000
-- Whether pools are used, once that is known.
local are_used
at_begin(function() are_used = nil end)

-- Tell this module META's field pools, if the caller has already read it.
function pools.know(field)
  are_used = field and true or false
end

function pools.are_used()
  if are_used == nil then pools.know(redis.call('HGET', META, 'pools')) end
  return are_used
end

-- Note that this crawl uses pools.
function pools.use()
  redis.call('HSET', META, 'pools', 1)
  are_used = true
end

-- -> the pool of a lane; nil if its requests need no item
local function pool_of(lane)
  return string.match(lane, '~([^|]*)$')
end

-- -> the pool of a place; nil if its requests need no item. A slot's own name may have a '~', too
function pools.of(place)
  return slots.is_laned(place) and pool_of(place) or nil
end

-- -> how many requests of a place may be handed out, at most *most*
function pools.room(place, most)
  local pool = pools.are_used() and pools.of(place)
  if not pool then return most end
  local room = 0
  for _, item in ipairs(pool_items.free(pool, most)) do
    local its = pool_items.read(pool, item)
    local delay, concurrency = pool_items.limits_of(pool, its)
    room = room + (delay > 0 and 1 or math.max(1, concurrency - pool_items.uses_of(pool, item)))
  end
  return math.min(most, room)
end

-- -> the time in *delay* milliseconds, at least the item's own. So items that are free have their turns one after the other
local function later(its, delay)
  return decimal(math.max(number_of(its.next, 0), slots.now() + delay))
end

-- -> whether an item is free
local function is_free(pool, item)
  return number_of(pool_items.on_set('ZSCORE', POOL_ITEMS .. pool, item), math.huge) <= slots.now()
end

-- Give an item to *user*: *known*, if it is free, or the one that was free first. -> its name; nil if none is free
local function take(pool, user, known)
  local item = known and is_free(pool, known) and known or pool_items.free(pool, 1)[1]
  if not item then return end
  local its = pool_items.read(pool, item)
  local delay, concurrency = pool_items.limits_of(pool, its)
  pool_items.on_set('ZADD', POOL_USES, 0, pool .. ' ' .. item .. ' ' .. user)
  -- The delay begins with the answer: so the next user comes after that.
  local awaits = concurrency > 1 and delay > 0 and user or ''
  pool_items.write(pool, item, 'used', whole(number_of(its.used, 0) + 1), 'next', later(its, 0), 'awaits', awaits)
  pool_items.settle(pool, item)
  return item
end

-- -> the item for a lease of a place; nil if its requests need none, or if none is free
function pools.take(place, worker, lease)
  local pool = pools.of(place)
  return pool and take(pool, worker .. '/' .. lease)
end

-- *user* no longer has an item. ago: if it is not known when its last request was sent, for how many milliseconds none was
local function give_up(pool, item, user, ago)
  if pool_items.on_set('ZREM', POOL_USES, pool .. ' ' .. item .. ' ' .. user) == 0 then return end
  local its = pool_items.read(pool, item)
  local gap = ago and pool_items.limits_of(pool, its) - ago or 0
  if its.value then pool_items.write(pool, item, 'next', later(its, math.max(0, gap))) end
  pool_items.settle(pool, item)
end

-- -> for how many milliseconds a worker that counts as dead has sent nothing: while it lived, it made at least three exchanges
-- in the time of its lease
local function silence_of(worker)
  local lease = redis.pcall('HGET', WORKER .. worker, 'lease')
  return number_of(type(lease) == 'string' and lease, 0) * 2 / 3
end

-- Note that a lease {name, value} of *worker* has ended. ago: as for give_up
function pools.released(worker, lease, ago)
  if not pools.are_used() then return end
  local _, _, _, _, place, _, item = leases.read(lease[2])
  local pool = item and pools.of(place)
  if pool then give_up(pool, item, worker .. '/' .. lease[1], ago) end
end

-- Note that leases {{name, value}, …} of *worker* were taken from it. died: it counts as dead
function pools.taken(worker, held, died)
  if not pools.are_used() then return end
  local ago = died and silence_of(worker) or 0
  for _, lease in ipairs(held) do pools.released(worker, lease, ago) end
end

-- Note that *worker* no longer counts as alive, or has left. died: it counts as dead
function pools.forget_worker(worker, died)
  local fields = pools.are_used() and redis.pcall('HGETALL', WORKER .. worker) or {}
  for i = 1, #fields, 2 do
    local pool = string.match(fields[i], '^pool (.*)$')
    if pool then give_up(pool, fields[i + 1], worker .. '/', died and silence_of(worker)) end
  end
end

-- Release what users have that are gone: another program has deleted their leases, or the frontier was cleared.
function pools.check_uses()
  for _, member in ipairs(pool_items.on_set('ZRANGE', POOL_USES, 0, LOOKED_AT - 1)) do
    local pool, item, worker, lease = string.match(member, '^(%S+) (%S+) (%S+)/(%S*)$')
    local holds
    if worker and lease ~= '' then
      holds = redis.pcall('HEXISTS', LEASES .. worker, lease) == 1
    elseif worker then
      -- Its own key is kept for a day.
      holds = redis.call('ZSCORE', WORKERS, worker) and redis.pcall('HGET', WORKER .. worker, 'pool ' .. pool) == item
    end
    if not holds then
      redis.call('ZREM', POOL_USES, member)
      if pool then pool_items.settle(pool, item) end
    end
  end
end

-- -> the lanes, each with its pool, of which a worker with these *offers* may have an item
local function served(offers)
  local found = {}
  for _, lane in ipairs(slots.has_lanes ~= false and lanes.all() or {}) do
    local pool = pool_of(lane)
    if pool and lanes.covers(offers, lane) then found[#found + 1] = {lane, pool} end
  end
  return found
end

-- -> *offers* without the pools of which no item is free
function pools.offers(offers)
  if not offers or not pools.are_used() then return offers end
  local left = '|' .. offers .. '|'
  for _, its in ipairs(served(offers)) do
    local name = '|~' .. its[2] .. '|'
    local first, last = string.find(left, name, 1, true)
    if first and not pool_items.free(its[2], 1)[1] then left = string.sub(left, 1, first) .. string.sub(left, last + 1) end
  end
  return string.sub(left, 2, -2)
end

-- -> whether requests that a worker with these *offers* may have wait for items that are not free; and from when on the first
-- of these items is free, nil if that is not known
function pools.awaited(offers)
  local is_awaited, first = false, math.huge
  for _, its in ipairs(offers and pools.are_used() and served(offers) or {}) do
    local lane, pool = unpack(its)
    if not pool_items.free(pool, 1)[1] and redis.call('EXISTS', LANE .. lane) == 1 then
      local now = decimal(slots.now())
      local found = pool_items.on_set('ZRANGEBYSCORE', POOL_ITEMS .. pool, now, '(inf', 'WITHSCORES', 'LIMIT', 0, 1)
      is_awaited, first = true, math.min(first, number_of(found[2], math.huge))
    end
  end
  return is_awaited, first < math.huge and first or nil
end

-- -> the item that *worker* has of a pool for its life, and whether it may go on with it; nil if it has none
local function held(pool, worker)
  local item = redis.call('HGET', WORKER .. worker, 'pool ' .. pool)
  if not item then return nil, false end
  local its = pool_items.read(pool, item)
  local is_its = pool_items.on_set('ZSCORE', POOL_USES, pool .. ' ' .. item .. ' ' .. worker .. '/')
  return item, is_its and its.value and not its.retired and number_of(its.rests, 0) <= slots.now()
end

-- -> whether *worker* can have an item of a pool for its life. One that rests or is retired is exchanged for another, as soon as
-- no request is in flight with it. known: the item that it knows, '' for none: Redis may have forgotten that it had it
function pools.may_have(pool, worker, is_in_flight, known)
  local item, is_usable = held(pool, worker)
  if is_usable then return true end
  if is_in_flight then return not item and known ~= '' and is_free(pool, known) end
  return pool_items.free(pool, 1)[1] ~= nil
end

-- *worker* no longer has an item of a pool for its life.
function pools.leave(pool, worker)
  local item = redis.call('HGET', WORKER .. worker, 'pool ' .. pool)
  if not item then return end
  give_up(pool, item, worker .. '/')
  redis.call('HDEL', WORKER .. worker, 'pool ' .. pool)
end

-- -> the item that *worker* has of a pool for its life, from now on if it had none. There must be one: see pools.may_have
function pools.of_worker(pool, worker, known)
  local item, is_usable = held(pool, worker)
  if is_usable then return item end
  pools.leave(pool, worker)
  local found = take(pool, worker .. '/', known ~= '' and known)
  redis.call('HSET', WORKER .. worker, 'pool ' .. pool, found)
  return found
end

return pools -- seldom used
