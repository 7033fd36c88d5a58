-- Needs: keys, number_of
-- Count the leases of all workers, and the workers that may add requests without holding a lease: they read start(), or
-- have requests that are not in Redis yet, or never will be.
-- -> leased, busy
local fleet = {}
-- How many workers are compared with one that joins.
local FLEET_ASKED = 1000

function fleet.count()
  local leased, busy = 0, 0
  for _, worker in ipairs(redis.call('ZRANGE', WORKERS, 0, -1)) do
    -- If somebody has stored a value of another type there, it counts as a worker without leases.
    local held = redis.pcall('HLEN', LEASES .. worker)
    leased = leased + (type(held) == 'number' and held or 0)
    busy = busy + (redis.pcall('HGET', WORKER .. worker, 'busy') == '1' and 1 or 0)
  end
  return leased, busy
end

-- The same, but for more than a few workers the counts may be a moment old: counting a thousand workers takes Redis
-- milliseconds. Old counts are never used to find the fleet finished.
local FLEET_AT_A_LOOK, FLEET_KNOWN = 50, 200
function fleet.lately(now)
  if redis.call('ZCARD', WORKERS) <= FLEET_AT_A_LOOK then return fleet.count() end
  local at, leased, busy = string.match(redis.call('HGET', META, 'fleet') or '', '^(%d+) (%d+) (%d+)$')
  leased, busy = number_of(leased, 0), number_of(busy, 0)
  if at and tonumber(at) <= now and now - at < FLEET_KNOWN and leased + busy > 0 then return leased, busy end
  leased, busy = fleet.count()
  redis.call('HSET', META, 'fleet', string.format('%.0f %d %d', now, leased, busy))
  return leased, busy
end

-- -> the workers other than *worker* with a deadline from *first* on for which the latest crawl is over: they joined too
--    late for it, or missed its finish
function fleet.late(worker, first)
  local late = {}
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, first, '+inf')) do
    local over = name ~= worker and redis.pcall('HGET', WORKER .. name, 'over')
    if over and not has_failed(over) then late[#late + 1] = name end
  end
  return late
end

-- Let *late* workers take part in a new crawl, so that each of them knows when it finishes. But a worker that still has
-- requests of the finished crawl (its field is 1) does not.
function fleet.take_part(late)
  for _, name in ipairs(late) do
    if redis.call('HGET', WORKER .. name, 'over') == '0' then redis.call('HDEL', WORKER .. name, 'over') end
  end
end

-- -> a live worker other than *worker* whose hash has another *value* in *field*, and that value; nil if there is none
function fleet.with_another(worker, field, value, now)
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '(' .. now, '+inf', 'LIMIT', 0, FLEET_ASKED)) do
    local its = name ~= worker and redis.pcall('HGET', WORKER .. name, field)
    if its and not has_failed(its) and its ~= value then return name, its end
  end
  return nil
end

-- Delete all keys of a worker that has no leases, or whose leases are gone with their frontier.
function fleet.forget(worker)
  redis.call('UNLINK', LEASES .. worker, WORKER .. worker, SLOTS_OF .. worker)
end

return fleet -- seldom used
