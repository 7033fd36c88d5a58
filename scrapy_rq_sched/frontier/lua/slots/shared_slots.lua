-- Needs: keys, slots/slots, number_of, fleet/renew
-- Spiders that share the states of slots (FRONTIER_SLOTS_KEY): their workers, their turns, and what they tell each other.
-- The key META identifies a spider. Beside the states there are:
--   SHARED_WORKERS  the workers of all these spiders, by their deadlines: see fleet/renew.lua
--   MOVED           slots that may have a turn sooner than another spider expects, by the time of that
-- Otherwise a spider that takes each turn of a slot ahead of its time would keep the slot forever. So the state of a slot
-- also has: last, the spider that had its last turn; asked_by, another spider that has asked in vain since; asked, the
-- time until which the next turn is left to that spider.
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
  if not slots.are_shared then return end
  make_way()
  local now = slots.now()
  redis.call('ZADD', MOVED, string.format('%.3f', now), slot)
  redis.call('ZREMRANGEBYSCORE', MOVED, '-inf', now - KEPT)
  redis.call('PEXPIRE', MOVED, KEPT)
  -- The spider that has asked may have the turn now, but the others do not wait long for it.
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
  for i = 1, #found, 2 do redis.call('ZADD', SLOTS, 'XX', 'LT', score, found[i]) end
  if #found == 2 * MOVED_AT_ONCE then
    -- All moves of one script have the same time, so there may be more of it.
    for _, slot in ipairs(redis.call('ZRANGEBYSCORE', MOVED, last, last)) do
      redis.call('ZADD', SLOTS, 'XX', 'LT', score, slot)
    end
  end
  redis.call('HSET', META, 'moves_heard', last)
end

function shared_slots.is_left_to_another(state)
  return state.asked_by ~= META and state.asked > slots.now()
end

-- There is no turn for this spider until *at*: note that it has asked. latest: the latest time that the state is about
function shared_slots.ask_for(state, at, latest)
  if state.last ~= META then
    local key = SLOT .. state.slot
    redis.call('HSET', key, 'asked', string.format('%.0f', at + LEFT_FOR), 'asked_by', META)
    slots.keep_state(state.slot, latest, state.active > 0)
  end
end

-- Note that this spider is given a turn.
function shared_slots.had(state)
  redis.call('HSET', SLOT .. state.slot, 'last', META)
  if state.asked_by == META then redis.call('HDEL', SLOT .. state.slot, 'asked', 'asked_by') end
end

return shared_slots -- seldom used
