-- Needs: keys
-- SLOTS, the index of the slots whose requests wait. A slot is in it as long as requests of it may wait; what is at the
-- key of any other slot is left from a cleared frontier, and not read. Its score is the server's time (milliseconds) from
-- which the slot may give a request. The scores that one script gives differ by a quarter of a microsecond, which is as
-- exact as a score is: so they keep their order, and a script that runs later has later ones.
local slots = {}
-- This script's time, and how many turns it has given; what META says of the time, once it was read.
local moment, given, known = nil, 0, nil

-- To be called by who has read it already.
function slots.know(clock, ahead)
  known = {clock, ahead}
end

-- -> the frontier's time (milliseconds): the server's, which is not set back. Where that is behind what it was at the
-- last exchange, because somebody has set the clock or another server has taken over, it is so much ahead from then on.
function slots.now()
  if not moment then
    local time = redis.call('TIME')
    known = known or redis.call('HMGET', META, 'clock', 'clock_ahead')
    local clock, ahead = tonumber(known[1] or '') or 0, tonumber(known[2] or '') or 0
    moment = time[1] * 1000 + time[2] / 1000 + ahead
    if moment < clock and clock < 9e15 then
      redis.call('HSET', META, 'clock_ahead', string.format('%.3f', ahead + clock - moment))
      moment = clock
    end
  end
  return moment
end

-- To be called by an exchange that may have given turns; fields: of META, which it is about to write.
function slots.keep_time(fields)
  if moment then fields[#fields + 1], fields[#fields + 2] = 'clock', string.format('%.3f', moment) end
end

-- -> a score behind those of all slots that are due
local function last_turn()
  given = given + 1
  return string.format('%.17g', slots.now() + given / 4096)
end

-- Requests of this slot wait: it has its turn after those that wait already.
function slots.enter(slot)
  if redis.call('ZADD', SLOTS, 'NX', last_turn(), slot) == 1 then redis.call('UNLINK', SLOT_REQUESTS .. slot) end
end

-- The slots that are due within *ahead* milliseconds, those first that are due longest.
function slots.due(n, ahead)
  return redis.call('ZRANGEBYSCORE', SLOTS, '-inf', slots.now() + 1 + ahead, 'LIMIT', '0', n)
end

-- A slot has had its turn. Its next is at *time*, or else after those of the others; with no request left it has none.
function slots.served(slot, left, time)
  if left > 0 then
    redis.call('ZADD', SLOTS, time and string.format('%.17g', time) or last_turn(), slot)
  else
    redis.call('ZREM', SLOTS, slot)
  end
end

-- -> from when there may be a turn for anybody; nil if nothing waits in any slot
function slots.next()
  return tonumber(redis.call('ZRANGE', SLOTS, 0, 0, 'WITHSCORES')[2] or '')
end

return slots
