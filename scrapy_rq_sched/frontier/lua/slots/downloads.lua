-- Needs: keys, slots/slots, number_of, slots/shared_slots
-- The number of downloads of a slot that each worker has: the field a:<worker> of the slot's state is '<n> <until>'. They
-- count while the worker is alive. Of another spider's worker that is unknown, as of an older version of this package,
-- they count until the second number, a time.
local downloads = {}
-- How long these downloads count, in milliseconds.
local COUNTED = 600000

-- -> whether a worker is alive; nil for an unknown worker of another spider
function downloads.lives(worker)
  local deadline = tonumber(redis.call('ZSCORE', WORKERS, worker) or '')
  if not deadline and slots.are_shared then return shared_slots.lives(worker) end
  return (deadline or 0) > server_time()
end

-- -> the number of downloads of *worker* that *value*, the field's value, stands for
function downloads.count(value, worker)
  local n, till = string.match(value or '', '^(%d+) (%d+)$')
  local lives = downloads.lives(worker)
  local is_over = lives == nil and number_of(till, 0) <= slots.now()
  return lives ~= false and not is_over and number_of(n, 0) or 0
end

-- Add *n*, which may be negative, to the downloads of *worker*.
function downloads.note(slot, worker, n)
  local key, field = SLOT .. slot, 'a:' .. worker
  local value = redis.pcall('HGET', key, field)
  if has_failed(value) then redis.call('UNLINK', key) end
  local before = string.match(not has_failed(value) and value or '', '^%d+')
  local count = number_of(before, 0) + n
  if count <= 0 then
    if redis.call('HDEL', key, field, 'kept') == 0 then return end
    -- If other workers download there, the state is kept long again when the slot is next asked.
    local times = redis.call('HMGET', key, 'tat', 'blocked', 'learnt')
    local latest = math.max(number_of(times[1], 0), number_of(times[2], 0))
    -- What was learnt of its answers is kept for longer: see slots/backoff.lua.
    if times[3] and times[3] ~= '' then latest = math.max(latest, slots.now() + 2 * slots.KEPT) end
    return slots.keep_state(slot, latest, false)
  end
  redis.call('HSET', key, field, string.format('%d %.0f', count, slots.now() + COUNTED))
end

return downloads -- seldom used
