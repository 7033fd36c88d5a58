-- Needs: keys
-- Does anybody still hold something, or may add something without holding it?
-- -> leased, busy: requests in workers' hands; workers that read start() or have requests of which
-- Redis does not know yet, or never will.
local fleet = {}

function fleet.count()
  local leased, busy = 0, 0
  for _, worker in ipairs(redis.call('ZRANGE', WORKERS, 0, -1)) do
    -- What somebody has put in a worker's place is no worker: it holds nothing.
    local held = redis.pcall('HLEN', LEASES .. worker)
    leased = leased + (type(held) == 'number' and held or 0)
    busy = busy + (redis.pcall('HGET', WORKER .. worker, 'busy') == '1' and 1 or 0)
  end
  return leased, busy
end

-- The same, for a worker that only asks. To go through a thousand workers takes Redis milliseconds: what is known of so
-- many is used again for a moment, unless it would be the end.
local FLEET_AT_A_LOOK, FLEET_KNOWN = 50, 200
function fleet.lately(now)
  if redis.call('ZCARD', WORKERS) <= FLEET_AT_A_LOOK then return fleet.count() end
  local at, leased, busy = string.match(redis.call('HGET', META, 'fleet') or '', '^(%d+) (%d+) (%d+)$')
  if at and tonumber(at) <= now and now - at < FLEET_KNOWN and leased + busy > 0 then return tonumber(leased), tonumber(busy) end
  leased, busy = fleet.count()
  redis.call('HSET', META, 'fleet', string.format('%.0f %d %d', now, leased, busy))
  return leased, busy
end

return fleet -- seldom used
