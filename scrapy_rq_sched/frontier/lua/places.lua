-- Needs: keys
-- Who has a place, where only so many workers may be at it (FRONTIER_MAX_WORKERS), and who waits in line for one.
-- Several spiders may have the same places (FRONTIER_MAX_WORKERS_KEY).
--
-- A worker that waits asks again and again. The place of one that is no longer heard goes to the first in line.
-- PLACES: worker, by when its place is free; LINE: worker that waits, by when it came; HEARD: the same, by when it no
-- longer counts as waiting.
local places = {}
-- Milliseconds without a question after which a worker that would join does not wait any more.
local PATIENCE = 10000
local LINE, HEARD = PLACES .. ':line', PLACES .. ':line:heard'

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
-- patience: milliseconds without a question after which a worker does not wait any more; came: when it came into the
-- line, by the server's time in microseconds, or nil; was_away: Redis was, so that nobody could be heard.
-- -> nil, or what it has to wait for: {its place in the line, from 1; places that are taken; when it came;
--    the time at which the next place is free, unless its worker is heard before}
function places.take(worker, most, now, lease_ms, patience, came, was_away)
  if redis.call('ZSCORE', PLACES, worker) then
    -- Nobody has taken its place, however late it is.
    keep(worker, now, lease_ms)
    return nil
  end
  -- Whatever somebody may have put there is no line.
  if wrong_type({{LINE, 'zset'}, {HEARD, 'zset'}}) then redis.call('DEL', LINE, HEARD) end
  local heard = tonumber(redis.call('ZSCORE', HEARD, worker) or '')
  if was_away or heard and heard <= now then
    -- Nobody got through to Redis for a while, neither this worker. All have as long again.
    for _, other in ipairs(redis.call('ZRANGEBYSCORE', PLACES, '-inf', now)) do
      redis.call('ZADD', PLACES, now + lease_ms, other)
    end
  else
    redis.call('ZREMRANGEBYSCORE', PLACES, '-inf', now)
  end
  redis.call('ZADD', HEARD, now + patience, worker)
  forget_the_unheard(now)
  redis.call('ZADD', LINE, 'NX', came or exact_time(), worker)
  redis.call('PEXPIRE', LINE, 86400000)
  redis.call('PEXPIRE', HEARD, 86400000)
  local before, taken = redis.call('ZRANK', LINE, worker), redis.call('ZCARD', PLACES)
  if before < most - taken then
    places.leave(worker)
    keep(worker, now, lease_ms)
    return nil
  end
  local first = redis.call('ZRANGE', PLACES, 0, 0, 'WITHSCORES')
  return {before + 1, taken, string.format('%.0f', redis.call('ZSCORE', LINE, worker)), tonumber(first[2]) or now}
end

-- For a worker that would join: -> nil, or what it is told instead, for which see open.lua.
--   {'wait', its place in the line, places that are taken, when it came, for how many milliseconds the next of these is
--    not free, how many others are at this frontier}
--   {'full', places that are taken}: it does not wait
--   {'stopped'}, {'finished'}: while it waited, the fleet was told to stop, or the crawl was finished
function places.refusal(worker, most, is_refused, came, now, lease_ms, was_away, finish, others, about)
  local stop, arrival = tonumber(redis.call('HGET', META, 'stop') or '') or 0, tonumber(came)
  local is_over = arrival and (stop > arrival and 'stopped' or 1000 * finish > arrival and 'finished')
  if is_over then
    places.leave(worker)
    return {is_over}
  end
  local wait = places.take(worker, most, now, lease_ms, math.min(lease_ms, PATIENCE), arrival and came, was_away)
  if not wait then return nil end
  if is_refused then
    places.leave(worker)
    return {'full', wait[2]}
  end
  -- For who looks into it.
  redis.call('HSET', WORKER .. worker, 'about', about)
  redis.call('PEXPIRE', WORKER .. worker, math.max(60000, lease_ms))
  return {'wait', wait[1], wait[2], wait[3], math.max(0, wait[4] - now), others}
end

-- Does anybody wait?
function places.are_awaited()
  return redis.call('EXISTS', LINE) == 1
end

-- This worker needs no place, and does not wait for one.
function places.leave(worker)
  for _, key in ipairs({PLACES, LINE, HEARD}) do redis.pcall('ZREM', key, worker) end
end

return places -- seldom used
