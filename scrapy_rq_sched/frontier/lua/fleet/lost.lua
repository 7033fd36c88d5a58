-- Needs: keys
-- Lost workers: they ended without leaving, or left because they used too much memory, so they may be started again. As
-- long as one of them may come back, no worker clears the frontier at its start (SCHEDULER_FLUSH_ON_START).
--
-- LOST: workers by the server's time (milliseconds) until which they may come back; that of a worker that has left ends
-- in half a millisecond
local lost = {}
-- For how many milliseconds after its deadline a worker may come back.
local GRACE = 600000

-- LOST and the keys of workers may have another type, and a script must not end in the middle because of it. So commands
-- that need a type are pcall. EXISTS and UNLINK need none, and scripts/open.lua has checked the type of WORKERS.

-- since: the worker's deadline, or when it left; has_left: whether it left because it used too much memory
function lost.add(worker, since, now, has_left)
  redis.pcall('ZREMRANGEBYSCORE', LOST, '-inf', now)
  if since + GRACE <= now then return end
  redis.pcall('ZADD', LOST, math.floor(since) + GRACE + (has_left and 0.5 or 0), worker)
  redis.pcall('PEXPIRE', LOST, GRACE)
end

-- The worker is back, or another one has come in its place.
function lost.remove(worker)
  redis.pcall('ZREM', LOST, worker)
end

-- Another worker has come in the place of *worker*, so that it does not come back.
function lost.replace(worker)
  lost.remove(worker)
  if redis.call('EXISTS', WORKER .. worker) == 1 then redis.pcall('HSET', WORKER .. worker, 'replaced', 1) end
end

-- The crawl of these workers is over.
function lost.clear()
  redis.call('UNLINK', LOST)
end

-- -> whether *worker* has ever joined the frontier, as far as Redis still knows
function lost.has_joined(worker)
  return redis.call('EXISTS', WORKER .. worker) == 1 or type(redis.pcall('ZSCORE', LOST, worker)) == 'string'
end

-- -> whether a worker other than *replaced* has left because it used too much memory, and may be started again
function lost.is_any_returning(replaced, now)
  local known = redis.pcall('ZRANGEBYSCORE', LOST, '(' .. now, '+inf', 'WITHSCORES')
  for i = 1, #known, 2 do
    if known[i] ~= replaced and tonumber(known[i + 1]) % 1 > 0 then return true end
  end
  return false
end

-- -> a worker other than *replaced* that may come back, and for how many milliseconds; or nil
function lost.find(replaced, now)
  local known = redis.pcall('ZRANGEBYSCORE', LOST, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 2)
  for i = 1, #known, 2 do
    if known[i] ~= replaced then return known[i], tonumber(known[i + 1]) - now end
  end
  -- The leases of these workers are not yet reclaimed.
  local dead = redis.call('ZRANGEBYSCORE', WORKERS, '(' .. now - GRACE, now, 'WITHSCORES')
  for i = 1, #dead, 2 do
    local own = redis.pcall('HMGET', WORKER .. dead[i], 'left', 'replaced')
    if not (own[1] or own[2] or dead[i] == replaced) then return dead[i], tonumber(dead[i + 1]) + GRACE - now end
  end
end

return lost -- seldom used
