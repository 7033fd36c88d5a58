-- Needs: keys, number_of, slots/slots, fleet/events
-- Pools of items that are for one user at a time, such as accounts and proxies (FRONTIER_POOLS). A request with
-- meta["pool"] has an item while it is in flight, and a worker may have one for its life.
--
-- POOLS: '<pool>' -> '<delay> <concurrency> <bad answers until an item is retired, 0: never>', the delay in milliseconds; and
--   '-<pool> <item>' for each item that an operator has removed, so that the settings do not add it again.
-- POOL_ITEMS..pool: a sorted set of the pool's items. Score: the time from which a user may have it (milliseconds); inf if no
--   event but a release or an operator can make it free.
-- POOL_ITEM..pool/item: a hash
--   value, cookies  what the user gets, in JSON. Both may be secret
--   limits          '<delay> <concurrency>' of this item alone; '-' is not set
--   next            the time from which its next request may begin
--   rests, why      the time until which it rests, and why
--   retired         why it is out of use
--   awaits          the user that got it last, and has no answer yet: with a delay, and if it may have several users
--   bad, used       how many bad answers it had in a row; how often it was given
--   is_set          '1': it is from the settings
-- POOL_USES: which items are in use, members '<pool> <item> <worker>/<lease>'; without a lease if the worker has it for its
--   life, which its own key's field 'pool <pool>' also has. All scores are 0. An item is free if it has fewer members than its
--   concurrency: no counter can drift.
local pool_items = {}

-- Use a command on a sorted set. A value of another type, which another program has stored there, is deleted.
function pool_items.on_set(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if not has_failed(reply) then return reply end
  redis.call('UNLINK', key)
  return redis.call(command, key, ...)
end

-- -> the fields of an item
function pool_items.read(pool, item)
  local key, its = POOL_ITEM .. pool .. '/' .. item, {}
  local flat = redis.pcall('HGETALL', key)
  if has_failed(flat) then
    redis.call('UNLINK', key)
    flat = {}
  end
  for i = 1, #flat, 2 do its[flat[i]] = flat[i + 1] end
  return its
end

function pool_items.write(pool, item, ...)
  redis.call('HSET', POOL_ITEM .. pool .. '/' .. item, ...)
end

-- -> the delay and the concurrency of an item, and how many bad answers retire it
function pool_items.limits_of(pool, its)
  local found = redis.pcall('HGET', POOLS, pool)
  local delay, concurrency, bad = string.match(type(found) == 'string' and found or '', '^(%S+) (%S+) (%S+)$')
  local own_delay, own_concurrency = string.match(its.limits or '', '^(%S+) (%S+)$')
  return number_of(own_delay, number_of(delay, 0)), number_of(own_concurrency, number_of(concurrency, 1)), number_of(bad, 0)
end

-- -> how many users an item has
function pool_items.uses_of(pool, item)
  local name = pool .. ' ' .. item
  return pool_items.on_set('ZLEXCOUNT', POOL_USES, '[' .. name .. ' ', '(' .. name .. '!')
end

-- -> whether the delay of an item has not begun, because its last user has no answer yet
local function is_awaited(pool, item, its)
  return its.awaits and pool_items.on_set('ZSCORE', POOL_USES, pool .. ' ' .. item .. ' ' .. its.awaits)
end

-- -> from when an item may be given
local function free_from(pool, item, its)
  local _, concurrency = pool_items.limits_of(pool, its)
  if its.retired or pool_items.uses_of(pool, item) >= concurrency or is_awaited(pool, item, its) then return 'inf' end
  return decimal(math.max(number_of(its.next, 0), number_of(its.rests, 0)))
end

-- Set the score of an item, after its fields or its uses have changed.
function pool_items.settle(pool, item)
  local its = pool_items.read(pool, item)
  if not its.value then
    pool_items.on_set('ZREM', POOL_ITEMS .. pool, item)
  else
    pool_items.on_set('ZADD', POOL_ITEMS .. pool, free_from(pool, item, its), item)
  end
  return its
end

-- -> the items of a pool that are free, at most *most*, the one that was free first first
function pool_items.free(pool, most)
  return pool_items.on_set('ZRANGEBYSCORE', POOL_ITEMS .. pool, '-inf', decimal(slots.now()), 'LIMIT', 0, most)
end

-- -> the value and the cookies of an item, in JSON, for its user
function pool_items.contents(pool, item)
  local its = pool_items.read(pool, item)
  return {its.value or 'null', its.cookies or ''}
end

-- Take an item out of use. -> whether it was in use
function pool_items.retire(pool, item, reason, worker)
  local its = pool_items.read(pool, item)
  if not its.value or its.retired then return false end
  pool_items.write(pool, item, 'retired', reason)
  pool_items.settle(pool, item)
  events.tell('item_retired', worker, {pool = pool, item = item, reason = reason})
  return true
end

-- -> whether any item of a pool is not retired
function pool_items.are_left(pool)
  for _, item in ipairs(pool_items.on_set('ZRANGE', POOL_ITEMS .. pool, 0, -1)) do
    if not pool_items.read(pool, item).retired then return true end
  end
  return false
end

-- Let an item rest until *time*.
function pool_items.rest(pool, item, time, why)
  local its = pool_items.read(pool, item)
  if not its.value then return false end
  pool_items.write(pool, item, 'rests', decimal(time), 'why', why)
  pool_items.settle(pool, item)
  return true
end

-- What *worker* reports of an item: a table with some of the fields ago (milliseconds since its last answer), rest
-- (milliseconds), why, bad (how many bad answers it had), good (there was a good one before them), retire (the reason), cookies,
-- leases (that were answered)
function pool_items.hear(pool, item, report, worker)
  local its = pool_items.read(pool, item)
  if not its.value then return end
  local delay, _, most = pool_items.limits_of(pool, its)
  local fields = {}
  local function set(name, value) fields[#fields + 1], fields[#fields + 2] = name, value end
  if report.ago and delay > 0 then
    set('next', decimal(math.max(number_of(its.next, 0), slots.now() - report.ago + delay)))
  end
  local bad = number_of(report.bad, 0) + (report.good and 0 or number_of(its.bad, 0))
  if bad ~= number_of(its.bad, 0) then set('bad', whole(bad)) end
  if report.rest then
    local rests = slots.now() + report.rest
    if rests > number_of(its.rests, 0) then
      set('rests', decimal(rests))
      set('why', report.why or '')
    end
  end
  for _, lease in ipairs(report.leases or {}) do
    if its.awaits == worker .. '/' .. lease then set('awaits', '') end
  end
  if report.cookies then set('cookies', report.cookies) end
  if #fields > 0 then pool_items.write(pool, item, unpack(fields)) end
  local reason = report.retire or most > 0 and bad >= most and bad .. ' bad answers in a row, the last one: ' .. (report.why or '?')
  if reason then return pool_items.retire(pool, item, reason, worker) and reason or nil end
  if #fields > 0 then pool_items.settle(pool, item) end
end

-- Set the limits of a pool, as in POOLS.
function pool_items.define(pool, limits)
  if redis.call('HGET', POOLS, pool) == limits then return end
  redis.call('HSET', POOLS, pool, limits)
  for _, item in ipairs(pool_items.on_set('ZRANGE', POOL_ITEMS .. pool, 0, -1)) do pool_items.settle(pool, item) end
end

-- Let an item neither rest nor be retired any more.
local function forget_bad(pool, item)
  redis.call('HDEL', POOL_ITEM .. pool .. '/' .. item, 'retired', 'rests', 'why', 'bad')
end

-- Add an item, or change its value. own: its own limits; is_set: it is from the settings, which add none that an operator
-- has removed
-- -> whether it is there now
function pool_items.add(pool, item, value, own, is_set)
  if is_set and redis.call('HEXISTS', POOLS, '-' .. pool .. ' ' .. item) == 1 then return false end
  local its = pool_items.read(pool, item)
  local is_same = its.is_set and its.value == value and its.limits == own
  if is_set and is_same and pool_items.on_set('ZSCORE', POOL_ITEMS .. pool, item) then return true end
  pool_items.write(pool, item, 'value', value, 'limits', own)
  if is_set then
    pool_items.write(pool, item, 'is_set', 1)
  else
    redis.call('HDEL', POOLS, '-' .. pool .. ' ' .. item)
    forget_bad(pool, item)
  end
  pool_items.settle(pool, item)
  return true
end

-- Use an item again that rests or is retired. -> whether it is there
function pool_items.use_again(pool, item)
  if not pool_items.read(pool, item).value then return false end
  forget_bad(pool, item)
  pool_items.settle(pool, item)
  return true
end

-- Restore some fields of an item, as an import has them. Without its value, it is not free until the settings add it.
function pool_items.restore(pool, item, fields)
  pool_items.write(pool, item, unpack(fields))
  if not pool_items.settle(pool, item).value then pool_items.on_set('ZADD', POOL_ITEMS .. pool, 'inf', item) end
end

-- Remove an item. Only an operator's removal is remembered.
-- -> whether it was there
function pool_items.remove(pool, item, is_set)
  local was_there = pool_items.on_set('ZREM', POOL_ITEMS .. pool, item) == 1
  redis.call('UNLINK', POOL_ITEM .. pool .. '/' .. item)
  if was_there and not is_set then redis.call('HSET', POOLS, '-' .. pool .. ' ' .. item, 1) end
  return was_there
end

-- Remove the items of the settings that are not in *names*, a set.
function pool_items.keep_only(pool, names)
  for _, item in ipairs(pool_items.on_set('ZRANGE', POOL_ITEMS .. pool, 0, -1)) do
    if not names[item] and pool_items.read(pool, item).is_set then pool_items.remove(pool, item, true) end
  end
end

-- Delete all pools.
function pool_items.clear()
  local flat = redis.pcall('HGETALL', POOLS)
  for i = 1, has_failed(flat) and 0 or #flat, 2 do
    local pool = flat[i]
    for _, item in ipairs(pool_items.on_set('ZRANGE', POOL_ITEMS .. pool, 0, -1)) do
      redis.call('UNLINK', POOL_ITEM .. pool .. '/' .. item)
    end
    redis.call('UNLINK', POOL_ITEMS .. pool)
  end
  redis.call('UNLINK', POOLS, POOL_USES)
end

return pool_items -- seldom used
