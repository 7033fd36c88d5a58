-- Needs: keys, number_of, slots/slots, slots/own_slots, slots/downloads, slots/backoff, slots/outside_turns, slots/limits, slots/shared_slots, exchange/header, exchange/slot_policy, exchange/admission
-- Turns of slots for requests that a worker sends without the scheduler, as for media files. They are sent in the same gaps as
-- other requests; else, other rules hold for them than in exchange/admission.lua.
local outside = {}
-- By which part of its delay a turn is further away from those of another worker of which it is not known when it uses them,
-- and by how many milliseconds at most: each may be so late.
local APART, MOST_APART = 0.5, 250
-- A turn is given at most so many milliseconds ahead, and as many as a reply takes: together less than QUIET in
-- exchange/admission.lua. And the longest time for which these requests wait for the end of a block.
local AHEAD, MOST_LATENCY, LONGEST_WAIT = 1500, 400, 60000
-- For how long at least a turn is left to a request that waits in the queue of the slot.
local LEFT_FOR = 250
-- How long a worker waits until it asks again whether another has used its turn; for how long its wish counts; and how long
-- after the turn it is given up to wait for the report, in milliseconds.
local ASK_AFTER, WISHED_FOR, UNREPORTED = 100, 500, 2000

-- -> whether other workers may have turns of slots
local function has_others()
  return slots.are_shared or redis.call('ZCARD', WORKERS) > 1
end

-- -> the room between the turns of different workers, each of which may be late
local function room_of(state)
  return has_others() and math.min(state.delay * APART, MOST_APART) or 0
end

-- -> whether a turn that another worker was given last is used, as far as is known
local function is_used(state, last)
  return state.sent >= last - outside_turns.least_gap(state) / 10
end

-- -> nil; or when this worker must ask again, because another one has the last turn, or waits for the next one
local function await_another(step, state, ask)
  local last, worker = outside_turns.last(state)
  local wisher, since = string.match(state.outside_next, '^(%S+) (%S+)$')
  local is_wished = wisher and wisher ~= step.worker
  if is_wished and worker == step.worker and ask.now > last and not is_used(state, last) then
    -- A worker that asks again has no turn any more, so that the other need not wait for its report.
    outside_turns.note(state, last, worker, false)
    limits.change(state)
    last = nil
  end
  since = number_of(since, 0)
  if is_wished and ask.now < since + WISHED_FOR then return math.max(ask.now, since) + ASK_AFTER end
  if not last or worker == step.worker or is_used(state, last) then return nil end
  if downloads.lives(worker) == false or ask.now > last + UNREPORTED then return nil end
  local again_at = math.max(ask.now, last) + ASK_AFTER
  state.outside_next, state.is_outside_new = step.worker .. ' ' .. whole(again_at), true
  limits.change(state)
  return again_at
end

-- -> from when this worker may send a request without the scheduler
local function first_outside(step, state, ask, latency)
  local last, worker = outside_turns.last(state)
  local soonest, room = math.max(ask.now, state.blocked, ask.not_before), room_of(state)
  if backoff.is_down(state) then return math.max(state.tat, soonest) end
  if worker == step.worker then
    return math.max(last + limits.interval(state), state.sent + outside_turns.least_gap(state), soonest)
  end
  if state.owner == step.worker then return math.max(state.tat, soonest) end
  local at = state.tat
  if last and is_used(state, last) then
    at = math.max(last, state.sent) + limits.interval(state)
  elseif last then
    at = math.max(at, last + outside_turns.least_gap(state) + room)
  elseif state.pending > 0 then
    at = at + room
  end
  return math.max(at, soonest, ask.now + latency)
end

-- After each request that is sent without the scheduler, the next turn is for one that waits in the queue of the slot.
-- -> whether any waits; and nil, or when to ask again, because the turn is left to it
local function left_till(step, state, ask, latency)
  local others_wait = slots.has(state.slot) or slots.are_shared and shared_slots.is_left_to_another(state)
  if not (others_wait and outside_turns.last(state)) then return others_wait end
  local is_owner, takes_none = state.owner == step.worker, step.want == 0
  if takes_none and not has_others() then return true end
  if is_owner and takes_none and state.pending == 0 then
    own_slots.forget(step.worker, state.slot)
    state.owner, state.is_owner_new, is_owner = '', true, true
    limits.change(state)
    limits.set_turn(state, '')
  end
  -- For a moment, the slot is left to the worker that had it last, which may take none.
  local for_owner = not is_owner and limits.is_left(state, '') and own_slots.LEFT_FOR or 0
  local soon, now = math.max(state.tat, state.blocked) + math.max(state.delay, LEFT_FOR), ask.now + latency
  if now >= soon + for_owner then return true end
  return true, now < soon and soon or now + LEFT_FOR
end

-- Find turns of a slot for at most *most* of these requests. They wait neither for the turns that another worker has, nor for
-- the slot's concurrency: a page that holds either may wait for them. So they do not wait long either for a site that cannot be
-- reached, or that has asked to wait.
-- -> when each may begin; if there is none: when to ask again, or nil and why they must fail
function outside.grants(step, slot, most)
  local state, begins = limits.of(slot, slot_policy.all), {}
  admission.tell(step, state)
  local ask, latency = admission.ask_for(step, state, step.worker, most), math.min(header.latency or 0, MOST_LATENCY)
  if state.blocked > ask.now + LONGEST_WAIT then return begins, nil, 'blocked' end
  if state.delay == 0 then
    local soonest = math.max(state.blocked, ask.not_before)
    if soonest > ask.now then return begins, soonest end
    for i = 1, most do begins[i] = limits.AT_ONCE end
    return begins
  end
  local is_down, others_wait, till = backoff.is_down(state), left_till(step, state, ask, latency)
  local at = first_outside(step, state, ask, latency)
  local horizon = ask.now + latency + AHEAD
  -- Those that wait in the queue try whether the site can be reached again.
  if is_down and (others_wait or state.active > 0 or at > horizon) then return begins, nil, 'unreachable' end
  till = till or not is_down and await_another(step, state, ask)
  if till then return begins, till end
  if at > horizon then return begins, at - AHEAD end
  local _, had_last = outside_turns.last(state)
  local is_own = state.owner == step.worker or had_last == step.worker
  begins[1] = at
  while is_own and not others_wait and not is_down and #begins < most and at + state.delay <= horizon do
    at = at + limits.interval(state)
    begins[#begins + 1] = at
  end
  -- It does not count for the concurrency, which is one if the site cannot be reached.
  state.tat = at + (is_down and LONGEST_WAIT or limits.interval(state) + room_of(state))
  outside_turns.note(state, at, step.worker, true)
  state.outside_next = ''
  limits.change(state)
  if slots.are_shared then shared_slots.had(state) end
  limits.set_turn(state, state.owner)
  shared_slots.moved(slot)
  return begins
end

return outside -- seldom used
