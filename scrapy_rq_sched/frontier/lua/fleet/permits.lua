-- Needs: keys, fleet/renew
-- The places of workers (FRONTIER_MAX_WORKERS), and the line of workers that wait for a place. Several spiders may
-- share the places (FRONTIER_MAX_WORKERS_KEY).
--
-- A waiting worker asks repeatedly. If a worker is silent for too long, its place goes to the first worker in line.
-- PLACES: workers by the time after which their place is free; LINE: waiting workers by their arrival; HEARD: waiting
-- workers by the time after which they no longer count as waiting.
local permits = {}
-- A worker that wants to join no longer counts as waiting after this many milliseconds without a question.
local PATIENCE = 10000

local function forget_the_unheard(now)
  for _, worker in ipairs(redis.call('ZRANGEBYSCORE', HEARD, '-inf', now)) do
    redis.call('ZREM', LINE, worker)
  end
  redis.call('ZREMRANGEBYSCORE', HEARD, '-inf', now)
end

local function keep(worker, now, lease_ms)
  redis.call('ZADD', PLACES, now + lease_ms, worker)
  redis.call('PEXPIRE', PLACES, math.max(86400000, 10 * lease_ms))
end

-- Keep this worker's place, or take a free one: first come, first served.
-- patience: milliseconds without a question after which the worker no longer counts as waiting; came: when it joined
-- the line, by the server's time in microseconds, or nil; was_away: Redis was down, so that no worker could be heard
-- -> nil if it has a place; else {its position in the line, from 1; the number of taken places; when it joined the
--    line; the time at which the next place becomes free, unless its worker is heard before}
function permits.take(worker, most, now, lease_ms, patience, came, was_away)
  if redis.call('ZSCORE', PLACES, worker) then
    -- No other worker has taken its place, so it keeps it, however late it is.
    keep(worker, now, lease_ms)
    return nil
  end
  -- A value of another type is not a line: delete it.
  if wrong_type({{LINE, 'zset'}, {HEARD, 'zset'}}) then redis.call('DEL', LINE, HEARD) end
  local heard = tonumber(redis.call('ZSCORE', HEARD, worker) or '')
  -- No worker, including this one, could reach Redis for a while. All of them get a full lease again.
  if was_away or heard and heard <= now then renew(PLACES, now, lease_ms) end
  redis.call('ZREMRANGEBYSCORE', PLACES, '-inf', now)
  redis.call('ZADD', HEARD, now + patience, worker)
  forget_the_unheard(now)
  redis.call('ZADD', LINE, 'NX', came or exact_time(), worker)
  redis.call('PEXPIRE', LINE, 86400000)
  redis.call('PEXPIRE', HEARD, 86400000)
  local before, taken = redis.call('ZRANK', LINE, worker), redis.call('ZCARD', PLACES)
  if before < most - taken then
    permits.leave(worker)
    keep(worker, now, lease_ms)
    return nil
  end
  local first = redis.call('ZRANGE', PLACES, 0, 0, 'WITHSCORES')
  return {before + 1, taken, string.format('%.0f', redis.call('ZSCORE', LINE, worker)), tonumber(first[2]) or now}
end

-- The supervisor of *replaced*, which is dead, has started *worker* in its stead: hand over the dead worker's place, or
-- its position in the line.
-- -> when *worker* joined the line; *came* if it has no earlier time from the dead worker
function permits.inherit(worker, replaced, came, now, lease_ms)
  local place, arrival = redis.call('ZSCORE', PLACES, replaced), redis.pcall('ZSCORE', LINE, replaced)
  permits.leave(replaced)
  if place then keep(worker, now, lease_ms) end
  local has_arrived = came == '' and arrival and not has_failed(arrival)
  return has_arrived and string.format('%.0f', arrival) or came
end

-- For a worker that wants to join: -> nil if it has a place; else the reply to it, for scripts/open.lua:
--   {'wait', its position in the line, the number of taken places, when it joined the line, in how many milliseconds
--    the next place becomes free, how many other workers this frontier has}
--   {'full', the number of taken places}: it does not wait
--   {'stopped'}, {'finished'}: while it waited, the fleet was told to stop, or the crawl finished
function permits.refusal(worker, most, is_refused, came, now, lease_ms, was_away, finish, others, about)
  local stop, arrival = tonumber(redis.call('HGET', META, 'stop') or '') or 0, tonumber(came)
  local is_over = arrival and (stop > arrival and 'stopped' or 1000 * finish > arrival and 'finished')
  if is_over then
    permits.leave(worker)
    return {is_over}
  end
  local wait = permits.take(worker, most, now, lease_ms, math.min(lease_ms, PATIENCE), arrival and came, was_away)
  if not wait then return nil end
  if is_refused then
    permits.leave(worker)
    return {'full', wait[2]}
  end
  -- For people inspecting Redis.
  redis.call('HSET', WORKER .. worker, 'about', about)
  redis.call('PEXPIRE', WORKER .. worker, math.max(60000, lease_ms))
  return {'wait', wait[1], wait[2], wait[3], math.max(0, wait[4] - now), others}
end

-- -> whether any worker waits in line
function permits.are_awaited()
  return redis.call('EXISTS', LINE) == 1
end

-- Free this worker's place, and remove it from the line.
function permits.leave(worker)
  for _, key in ipairs({PLACES, LINE, HEARD}) do redis.pcall('ZREM', key, worker) end
end

return permits -- seldom used
