-- Needs: keys, slots/slots, slots/lanes, number_of, fleet/renew
-- Spiders that share the states of slots (FRONTIER_SLOTS_KEY): their workers, their turns, and what they tell each other.
-- The key META identifies a spider, and its requests that are in no lane; '<META>|<lane>' its requests in a lane, to which turns
-- are left in the same way: these are the parties. Beside the states there are:
--   SHARED_WORKERS  the workers of all these spiders, by their deadlines: see fleet/renew.lua
--   MOVED           slots that may have a turn sooner than another spider expects, by the time of that
-- Otherwise a party that takes each turn of a slot ahead of its time would keep the slot forever. So the state of a slot
-- also has: last, the parties that have had turns, the last one first, each with a line end; asked_by, another one that has asked
-- in vain since; asked, the time until which the next turn is left to that one.
local shared_slots = {}
-- Milliseconds: how long a turn is left to a spider after the time at which it may have it; how long a move and a worker
-- are remembered.
local LEFT_FOR, KEPT, WORKERS_KEPT = 1500, 600000, 86400000
-- How many moved slots an exchange looks at.
local MOVED_AT_ONCE = 1000

-- Delete values of other types at these keys: an exchange must not fail because of them.
local function make_way()
  for _, key in ipairs({SHARED_WORKERS, MOVED}) do
    if wrong_type({{key, 'zset'}}) then redis.call('UNLINK', key) end
  end
end

-- Note that a worker is alive until its deadline. This comes before all other calls.
function shared_slots.heartbeat(worker, lease_ms)
  make_way()
  local now = math.floor(slots.now())
  -- If no spider was heard for longer than a lease, Redis was away.
  if now - slots.last_time() > lease_ms then renew(SHARED_WORKERS, now, lease_ms) end
  redis.call('ZADD', SHARED_WORKERS, now + lease_ms, worker)
  redis.call('ZREMRANGEBYSCORE', SHARED_WORKERS, '-inf', now - WORKERS_KEPT)
  redis.call('PEXPIRE', SHARED_WORKERS, WORKERS_KEPT)
end

function shared_slots.leave(worker)
  make_way()
  redis.call('ZADD', SHARED_WORKERS, 'XX', math.floor(slots.now()), worker)
end

-- -> whether a worker of any of these spiders is alive; nil if it is unknown
function shared_slots.lives(worker)
  -- Another program may have stored a value of another type there; the next heartbeat deletes it.
  local deadline = tonumber(redis.pcall('ZSCORE', SHARED_WORKERS, worker) or '')
  if deadline then return deadline > slots.now() end
end

-- Tell the other spiders, if there are any, that a slot may have a turn sooner than they expect.
function shared_slots.moved(slot)
  if not slots.have_parties() then return end
  local now = slots.now()
  if slots.are_shared then
    make_way()
    redis.call('ZADD', MOVED, string.format('%.3f', now), slot)
    redis.call('ZREMRANGEBYSCORE', MOVED, '-inf', now - KEPT)
    redis.call('PEXPIRE', MOVED, KEPT)
  end
  -- The party that has asked may have the turn now, but the others do not wait long for it.
  local asked = number_of(redis.call('HGET', SLOT .. slot, 'asked'), 0)
  if asked > now + LEFT_FOR then
    redis.call('HSET', SLOT .. slot, 'asked', string.format('%.0f', now + LEFT_FOR))
  end
end

-- Hear of moved slots: those with waiting requests are looked at again.
function shared_slots.hear()
  local heard = redis.call('HGET', META, 'moves_heard') or '-inf'
  local found = redis.pcall('ZRANGEBYSCORE', MOVED, '(' .. heard, 'inf', 'WITHSCORES', 'LIMIT', 0, MOVED_AT_ONCE)
  if has_failed(found) or #found == 0 then return end
  local score, last = slots.score(slots.now()), found[#found]
  local function look_again(slot)
    redis.call('ZADD', SLOTS, 'XX', 'LT', score, slot)
    if slots.has_lanes then lanes.set_slot(slot, score) end
  end
  for i = 1, #found, 2 do look_again(found[i]) end
  if #found == 2 * MOVED_AT_ONCE then
    -- All moves of one script have the same time, so there may be more of it.
    for _, slot in ipairs(redis.call('ZRANGEBYSCORE', MOVED, last, last)) do look_again(slot) end
  end
  redis.call('HSET', META, 'moves_heard', last)
end

-- -> the slot of a place, and the party of its requests
function shared_slots.party_of(place)
  local slot, lane = lanes.split(place)
  return slot, lane and META .. '|' .. lane or META
end

-- -> the party of a place, by default the state's
local function party_at(state, place)
  return place and select(2, shared_slots.party_of(place)) or state.party
end

-- -> whether the next turn is left to another party than the state's; and whether that is of another spider
function shared_slots.is_left_to_another(state)
  local is_left = state.asked_by ~= state.party and state.asked > slots.now()
  return is_left, is_left and string.sub(state.asked_by .. '|', 1, #META + 1) ~= META .. '|'
end

-- -> whether the next turn is left to the party of a place, by default to the state's
function shared_slots.is_left_to(state, place)
  return state.asked_by == party_at(state, place) and state.asked > slots.now()
end

-- -> a number that is greater, the longer ago a place had a turn; 0: it had the last one. By default the state's party
function shared_slots.turns_since(state, place)
  local first = string.find('\n' .. state.last, '\n' .. party_at(state, place) .. '\n', 1, true)
  return first and first - 1 or math.huge
end

-- There is no turn for the state's party until *at*: note that it has asked. latest: the latest time that the state is about
function shared_slots.ask_for(state, at, latest)
  if shared_slots.turns_since(state) == 0 then return end
  state.asked, state.asked_by = at + LEFT_FOR, state.party
  redis.call('HSET', SLOT .. state.slot, 'asked', string.format('%.0f', state.asked), 'asked_by', state.party)
  slots.keep_state(state.slot, latest, state.active > 0)
end

-- Note that the state's party is given turns.
function shared_slots.had(state)
  local before = '\n' .. state.last
  local first, last = string.find(before, '\n' .. state.party .. '\n', 1, true)
  if first then before = string.sub(before, 1, first) .. string.sub(before, last + 1) end
  state.last = state.party .. '\n' .. string.sub(before, 2)
  redis.call('HSET', SLOT .. state.slot, 'last', state.last)
  if state.asked_by ~= state.party then return end
  state.asked, state.asked_by = 0, ''
  redis.call('HDEL', SLOT .. state.slot, 'asked', 'asked_by')
end

return shared_slots -- seldom used
