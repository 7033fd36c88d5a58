-- Needs: keys, slots, number_of
-- How many downloads a worker has of a slot: in the slot's state, a:<worker> is '<n> <until>'. Where other spiders have
-- the same states, nothing is known here of their workers, and nobody may notice their deaths; so what they have counts
-- until a time.
local downloads = {}
-- So long, in milliseconds.
local COUNTED = 600000

-- -> whether a worker is alive; nil of another spider's
function downloads.lives(worker)
  local deadline = tonumber(redis.call('ZSCORE', WORKERS, worker) or '')
  if not deadline and slots.are_shared then return nil end
  return (deadline or 0) > server_time()
end

-- -> how many *value* says that *worker* has
function downloads.count(value, worker)
  local n, till = string.match(value or '', '^(%d+) (%d+)$')
  local lives = downloads.lives(worker)
  local is_over = lives == nil and number_of(till, 0) <= slots.now()
  return lives ~= false and not is_over and number_of(n, 0) or 0
end

-- *worker* has *n* more; fewer, if that is negative.
function downloads.note(slot, worker, n)
  local key, field = SLOT .. slot, 'a:' .. worker
  local value = redis.pcall('HGET', key, field)
  if has_failed(value) then redis.call('UNLINK', key) end
  local before = string.match(not has_failed(value) and value or '', '^%d+')
  local count = number_of(before, 0) + n
  if count <= 0 then return redis.call('HDEL', key, field) end
  redis.call('HSET', key, field, string.format('%d %.0f', count, slots.now() + COUNTED))
end

return downloads
