-- Needs: keys, number_of
-- SLOTS, the index of the slots whose requests wait. A slot is in it as long as requests of it may wait; what is at the
-- key of any other slot is left from a cleared frontier, and not read. Its score is the server's time from which the slot
-- may give a request, in whole microseconds: Redis writes and reads a number with a fraction in twice the time. The scores
-- that one script gives differ by one, and a script that runs later has later ones. All times here are in milliseconds.
-- Where the highest priority comes first it may be another score: see exchange/priority_turns.lua.
-- FIRST_TIME: a score of so much or more is a time
-- are_shared: SLOT is not the frontier's own: other spiders have the same states of slots (FRONTIER_SLOTS_KEY)
local slots = {FIRST_TIME = 1e14, are_shared = SLOT ~= string.sub(META, 1, -5) .. 'slots:state:'}
-- Milliseconds for which a slot sleeps at the most.
local LONGEST, SHARED = 600000, 500
-- Where the frontier's time is kept; that of shared states is with these, for all that share them.
local CLOCK = slots.are_shared and SLOT .. '~clock' or META
local CLOCK_KEPT = 86400000
-- This script's time, and how many turns it has given; what CLOCK says of the time, once it was read.
local moment, given, known = nil, 0, nil
-- What slots.write() is to write.
local turned, emptied = {}, {}

-- To be called by who has read META already.
function slots.know(clock, ahead)
  if not slots.are_shared then known = {clock, ahead} end
end

-- -> the frontier's time (milliseconds): the server's, which is not set back. Where that is behind what it was at the
-- last exchange, because somebody has set the clock or another server has taken over, it is so much ahead from then on.
function slots.now()
  if not moment then
    local time = redis.call('TIME')
    known = known or redis.pcall('HMGET', CLOCK, 'clock', 'clock_ahead')
    local clock, ahead = number_of(known[1], 0), number_of(known[2], 0)
    moment = time[1] * 1000 + time[2] / 1000 + ahead
    if moment < clock then
      redis.pcall('HSET', CLOCK, 'clock_ahead', string.format('%.3f', ahead + clock - moment))
      moment = clock
    end
  end
  return moment
end

-- To be called by an exchange that may have given turns; fields: of META, which it is about to write.
function slots.keep_time(fields)
  if moment and slots.are_shared then
    redis.pcall('HSET', CLOCK, 'clock', string.format('%.3f', moment))
    redis.call('PEXPIRE', CLOCK, CLOCK_KEPT)
  elseif moment then
    fields[#fields + 1], fields[#fields + 2] = 'clock', string.format('%.3f', moment)
  end
end

-- -> the score of a slot that has its next turn at *time*
-- A slot that sleeps for long is looked at now and then: its state may be gone, or be changed by another spider.
function slots.score(time)
  return string.format('%.0f', 1000 * math.min(time, slots.now() + (slots.are_shared and SHARED or LONGEST)))
end

-- -> a score behind those of all slots that are due
local function last_turn()
  given = given + 1
  return string.format('%.0f', 1000 * slots.now() + given)
end

-- Requests of these slots are about to wait: each has its turn after those that wait already.
function slots.enter(names)
  in_chunks(names, function(...)
    local some, added, leftover = {...}, {}, {}
    for i, score in ipairs(redis.call('ZMSCORE', SLOTS, ...)) do
      if not score or tonumber(score) < slots.FIRST_TIME then added[#added + 1], added[#added + 2] = last_turn(), some[i] end
      if not score then leftover[#leftover + 1] = SLOT_REQUESTS .. some[i] end
    end
    if #added > 0 then redis.call('ZADD', SLOTS, unpack(added)) end
    if #leftover > 0 then redis.call('UNLINK', unpack(leftover)) end
  end)
end

-- -> the score of a slot that has its turn in *ahead* milliseconds
function slots.till(ahead)
  return string.format('%.0f', 1000 * (slots.now() + 1 + ahead))
end

-- -> the slots that are due within *ahead* milliseconds, those first that are due longest
function slots.due(n, ahead)
  local till = slots.till(ahead)
  return redis.call('ZRANGEBYSCORE', SLOTS, '-inf', till, 'LIMIT', '0', n)
end

-- A slot has had its turn. Its next is at *score*, or else after those of the others; with no request left it has none.
-- Noted for slots.write(): one command is faster than many.
function slots.served(slot, left, score)
  if left > 0 then
    turned[#turned + 1], turned[#turned + 2] = score or last_turn(), slot
  else
    emptied[#emptied + 1] = slot
  end
end

function slots.write()
  in_chunks(turned, function(...) redis.call('ZADD', SLOTS, ...) end)
  in_chunks(emptied, function(...) redis.call('ZREM', SLOTS, ...) end)
  turned, emptied = {}, {}
end

-- A slot has its next turn at *score*, if requests of it wait.
function slots.set(slot, score)
  redis.call('ZADD', SLOTS, 'XX', score, slot)
end

-- The same at *time*; 0: it may have it now.
function slots.at(slot, time)
  slots.set(slot, slots.score(math.max(time, slots.FIRST_TIME / 1000)))
end

return slots
