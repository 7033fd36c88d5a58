-- Needs: keys, number_of, slots/lanes
-- SLOTS, the index of the slots that have waiting requests. A slot is in the index as long as it may have requests. If
-- the key of any other slot exists, it is left from a cleared frontier, and is not read. A slot's score is the server's
-- time from which it may give a request, in whole microseconds: for Redis, a number with a fraction takes twice as
-- long. The scores that one script gives differ by one, and a later script gives later ones. All other times here are
-- in milliseconds. With FRONTIER_ORDER = 'priority', a score may also be a request's: see exchange/serve_by_priority.lua.
-- FIRST_TIME: scores from this one on are times
-- SET: before the name of a slot, the field of SLOT_LIMITS with the limits that were set for it during the crawl. No
--   slot's name has a space.
-- ONLY_STATES: the value of META's field limited if no slot has limits of its own, but some have states. '1': some may have both
-- KEPT: how long a state is kept after the last time in it, in milliseconds
-- are_shared: other spiders use the same states of slots (FRONTIER_SLOTS_KEY), so SLOT is not the frontier's own
-- has_lanes: whether any place may be in a lane: see slots/lanes.lua; nil if that is unknown
local slots = {FIRST_TIME = 1e14, SET = 'set ', KEPT = 600000, ONLY_STATES = '2', are_shared = false}
-- The longest time that a slot sleeps; and how long its state is kept with downloads, which may take longer than an unused
-- state is kept. In milliseconds.
local LONGEST, KEPT_WITH_DOWNLOADS = 600000, 86400000
-- The key of the frontier's time. Spiders that share states of slots also share the time.
local CLOCK
local CLOCK_KEPT = 86400000
-- This script's time; how many turns it has given; the fields of CLOCK, once they were read; and its field clock_ahead, if
-- it has changed.
local moment, given, known, changed_ahead
-- The number of slots in the index, once this script has counted them; and the changes that write() will write.
local count, moved, turned, emptied
at_begin(function()
  slots.are_shared = SLOT ~= string.sub(META, 1, -5) .. 'slots:state:'
  CLOCK = slots.are_shared and SHARED_CLOCK or META
  moment, given, known, changed_ahead, slots.has_lanes = nil, 0, nil, nil, nil
  count, moved, turned, emptied = nil, {}, {}, {}
end)

local function note_added(n)
  count = count and count + n
end

-- Every other function that concerns the index calls this first.
local function write()
  if #moved > 0 then
    in_chunks(moved, function(...) redis.call('ZADD', SLOTS, 'XX', ...) end)
    moved = {}
  end
  if #turned + #emptied == 0 then return end
  in_chunks(turned, function(...) note_added(redis.call('ZADD', SLOTS, ...)) end)
  in_chunks(emptied, function(...) note_added(-redis.call('ZREM', SLOTS, ...)) end)
  turned, emptied = {}, {}
end
writers[#writers + 1] = write

-- -> whether META's field slot_default is there, and has the form '<delay> <jitter> <concurrency>'
function slots.is_default(text)
  return text and string.find(text, '^%S+ %S+ %S+$') ~= nil
end

-- -> whether META's field slot_default is a limit. A jitter alone is none.
function slots.is_limit(default)
  return default and not string.find(default, '^0 %S+ 0$')
end

-- -> whether any slot may have limits; in most crawls none has. limited, default: META's fields limited and slot_default
function slots.may_be_limited(limited, default)
  return limited or slots.are_shared or slots.is_limit(default)
end

-- Tell this module the fields of the time, and the lanes, if the caller has already read META.
-- adds_lanes: whether places in lanes may be new
function slots.know(clock, ahead, of_lanes, adds_lanes)
  if not slots.are_shared then known = {clock, ahead} end
  slots.has_lanes = of_lanes and true or adds_lanes or false
  if slots.has_lanes then lanes.know(of_lanes) end
end

-- -> whether the turns of a slot may be for several parties: see slots/shared_slots.lua
function slots.have_parties()
  return slots.are_shared or slots.has_lanes ~= false
end

-- -> whether a place is in a lane
function slots.is_laned(place)
  return slots.has_lanes ~= false and string.find(place, '|', 1, true)
end

-- -> the slot of a place
function slots.slot_of(place)
  return slots.is_laned(place) and lanes.split(place) or place
end

-- -> the frontier's time (milliseconds): the server's time, but it never goes back. If the server's time is behind that
-- of the last exchange, because somebody has set the clock or another server has taken over, the frontier's time is
-- ahead by the difference from then on.
function slots.now()
  if not moment then
    local seconds, microseconds = clock()
    known = known or redis.pcall('HMGET', CLOCK, 'clock', 'clock_ahead')
    local latest, ahead = number_of(known[1], 0), number_of(known[2], 0)
    moment = seconds * 1000 + microseconds / 1000 + ahead
    if moment < latest then
      changed_ahead, moment = decimal(ahead + latest - moment), latest
    end
  end
  return moment
end

-- -> the frontier's time at the last exchange; 0 if it is unknown
function slots.last_time()
  slots.now()
  return number_of(known[1], 0)
end

-- Keep the time of an exchange that may have given turns. fields: a list of fields that it is about to write to META
function slots.keep_time(fields)
  if not moment then return end
  local written = slots.are_shared and {} or fields
  written[#written + 1], written[#written + 2] = 'clock', decimal(moment)
  if changed_ahead then written[#written + 1], written[#written + 2] = 'clock_ahead', changed_ahead end
  if slots.are_shared then
    redis.pcall('HSET', CLOCK, unpack(written))
    redis.call('PEXPIRE', CLOCK, CLOCK_KEPT)
  end
end

-- -> the score of a slot whose next turn is at *time*
-- A slot that sleeps for long is looked at from time to time: its state may have expired.
function slots.score(time)
  return whole(1000 * math.min(time, slots.now() + LONGEST))
end

-- -> a score after those of all slots that are due
local function last_turn()
  given = given + 1
  return whole(1000 * slots.now() + given)
end

-- Enter places that are about to get requests into their lanes. -> the others
local function enter_lanes(names)
  -- Also if META has no lanes: somebody may have deleted it.
  if not string.find(table.concat(names), '|', 1, true) then return names end
  slots.has_lanes = true
  local others, added = lanes.enter(names, slots.FIRST_TIME, last_turn)
  note_added(#added)
  -- The key of a place that is new is left from a cleared frontier.
  for _, place in ipairs(added) do redis.call('UNLINK', SLOT_REQUESTS .. place) end
  return others
end

-- Enter slots that are about to get requests. Each new one has its turn after the slots that already wait.
function slots.enter(names)
  write()
  names = enter_lanes(names)
  in_chunks(names, function(...)
    local some, added, leftover = {...}, {}, {}
    for i, score in ipairs(redis.call('ZMSCORE', SLOTS, ...)) do
      if not score or tonumber(score) < slots.FIRST_TIME then added[#added + 1], added[#added + 2] = last_turn(), some[i] end
      if not score then leftover[#leftover + 1] = SLOT_REQUESTS .. some[i] end
    end
    if #added > 0 then note_added(redis.call('ZADD', SLOTS, unpack(added))) end
    if #leftover > 0 then redis.call('UNLINK', unpack(leftover)) end
  end)
end

-- Enter the places again that are in lanes, if somebody has deleted META, which had the lanes.
function slots.restore_lanes()
  if redis.call('HEXISTS', META, 'lanes') == 1 then return end
  local places = redis.pcall('ZRANGEBYSCORE', SLOTS, 'inf', 'inf')
  if has_failed(places) or #places == 0 then return end
  slots.has_lanes = true
  slots.enter(places)
end

-- -> the score of a slot whose turn is in *ahead* milliseconds
function slots.till(ahead)
  return whole(1000 * (slots.now() + 1 + ahead))
end

-- -> the number of slots; with redis.pcall as *call*, the error if the index has a wrong type
function slots.count(call)
  write()
  if count then return count end
  local found = (call or redis.call)('ZCARD', SLOTS)
  if not has_failed(found) then count = found end
  return found
end

-- -> whether a slot may have waiting requests
function slots.has(slot)
  write()
  return redis.call('ZSCORE', SLOTS, slot) ~= false or slots.has_lanes ~= false and lanes.has(slot)
end

-- -> at most *n* random slots
function slots.random(n)
  write()
  return redis.call('ZRANDMEMBER', SLOTS, n)
end

function slots.remove(slot)
  write()
  if slots.is_laned(slot) then lanes.remove(slot) end
  note_added(-redis.call('ZREM', SLOTS, slot))
end

-- -> at most *n* slots with scores from *first* to *last*, with more arguments of ZRANGEBYSCORE
function slots.between(first, last, n, ...)
  write()
  return redis.call('ZRANGEBYSCORE', SLOTS, first, last, 'LIMIT', '0', n, ...)
end

-- -> the slots that are due within *ahead* milliseconds, the longest due first
function slots.due(n, ahead)
  return slots.between('-inf', slots.till(ahead), n)
end

-- -> {place, score, …}: at most *n* places with scores from *first* to *last*, by rising score, of SLOTS and of the lanes
-- with these *keys*
function slots.between_all(keys, first, last, n)
  local flat = slots.between(first, last, n, 'WITHSCORES')
  if #keys == 0 then return flat end
  local found, merged = {}, {}
  local function add(some)
    for i = 1, #some, 2 do found[#found + 1] = {some[i], some[i + 1], tonumber(some[i + 1])} end
  end
  add(flat)
  for _, key in ipairs(keys) do add(lanes.between(key, first, last, n)) end
  table.sort(found, function(a, b) return a[3] < b[3] end)
  for i = 1, math.min(n, #found) do merged[2 * i - 1], merged[2 * i] = unpack(found[i]) end
  return merged
end

-- Note that a slot has had its turn. Its next turn is at *score*, by default after all other slots. A slot with no
-- requests left leaves the index.
function slots.served(slot, left, score)
  if slots.is_laned(slot) then
    if left > 0 then lanes.set(slot, score or last_turn()) else slots.remove(slot) end
  elseif left > 0 then
    turned[#turned + 1], turned[#turned + 2] = score or last_turn(), slot
  else
    emptied[#emptied + 1] = slot
  end
end

-- -> until when the state of a slot is kept if *latest* is the latest time in it, and no worker downloads there
function slots.kept_until(latest)
  return math.max(latest, slots.now()) + slots.KEPT
end

-- Keep the state of a slot. latest: the latest time in it; has_downloads: whether any worker downloads there
function slots.keep_state(slot, latest, has_downloads)
  local kept = has_downloads and KEPT_WITH_DOWNLOADS or slots.KEPT
  redis.call('PEXPIRE', SLOT .. slot, whole(kept + math.max(0, latest - slots.now())))
end

-- Note that a slot is blocked until *time*: SLOTS_BLOCKED has the end of the last block.
function slots.note_block(time)
  local before = redis.pcall('GET', SLOTS_BLOCKED)
  if not has_failed(before) and number_of(before, 0) >= time then return end
  redis.call('SET', SLOTS_BLOCKED, whole(time), 'PX', whole(math.max(1, time - slots.now())))
end

-- A block outlives the crawl in which it was set, and META. -> whether any slot may be blocked
function slots.keep_blocks()
  if redis.call('EXISTS', SLOTS_BLOCKED) == 0 then return false end
  redis.call('HSET', META, 'limited', '1')
  return true
end

-- Set a slot's next turn to *score*, if it has waiting requests. of_lanes: the same for its places in lanes
function slots.set(slot, score, of_lanes)
  if #turned + #emptied > 0 then write() end
  if slots.has_lanes ~= false then lanes.set_slot(slot, of_lanes or score) end
  moved[#moved + 1], moved[#moved + 2] = score, slot
end

-- Set a slot's next turn to *time*, if it has waiting requests; 0: now.
function slots.at(slot, time)
  slots.set(slot, slots.score(math.max(time, slots.FIRST_TIME / 1000)))
end

return slots
