-- Needs: keys, slots/slots, slots/lanes, slots/own_slots, number_of, slots/downloads, slots/outside_turns, slots/limits, slots/shared_slots
-- Apply the workers' reports of their turns and downloads to the states of slots.
local slot_reports = {}

-- *worker* no longer has *n* of its turns; it began no request with *unused* of them, and the last request at *last*.
-- left: how many it still has. It has less than the state says if Redis has forgotten a report.
function slot_reports.used(state, worker, n, last, unused, left)
  if state.owner == worker then
    state.pending = math.max(0, math.min(state.pending - n, number_of(left, math.huge)))
  end
  local now = slots.now()
  if last > 0 then
    state.sent, state.is_sent_new = math.max(state.sent, math.min(last, now)), true
    state.tat = math.max(state.tat, state.sent + outside_turns.least_gap(state) * (1 + state.pending))
  end
  -- An unused turn, as for a response from the HTTP cache, costs the slot no time.
  if unused > 0 and state.pending == 0 and state.owner == worker then
    local from = state.sent > 0 and state.sent + limits.interval(state) or now
    -- A site that is asked too fast is not asked sooner than a delay after its answer.
    if state.learnt then from = math.max(from, state.learnt.raised + state.delay) end
    state.tat = math.min(state.tat, math.max(from, outside_turns.earliest(state)))
    shared_slots.moved(state.slot)
  end
  if state.leaves and state.pending == 0 and state.owner == worker then
    state.owner, state.is_owner_new = '', true
    own_slots.forget(worker, state.slot)
  end
  limits.change(state)
  limits.set_turn(state, worker)
end

-- *n* downloads of *worker* have ended.
function slot_reports.downloaded(state, worker, n)
  if not (state.workers and state.workers[worker]) then return end
  local slot = state.slot
  limits.forget(slot)
  downloads.note(slot, worker, -n)
  shared_slots.moved(slot)
  local is_asleep = number_of(redis.call('ZSCORE', SLOTS, slot), 0) > 1000 * slots.now()
  if is_asleep then
    limits.set_turn(state, worker)
  elseif slots.has_lanes then
    lanes.set_slot(slot, slots.score(slots.now()))
  end
end

-- The leases of *worker* for a slot went back: it no longer has turns or downloads there.
function slot_reports.release(slot, worker)
  local key = SLOT .. slot
  limits.forget(slot)
  if redis.call('EXISTS', key) == 0 then return end
  local state = limits.of(slot, {})
  redis.call('HDEL', key, 'a:' .. worker)
  if state.owner == worker then
    redis.call('HDEL', key, 'owner', 'pending')
    own_slots.forget(worker, slot)
  end
  shared_slots.moved(slot)
  slots.at(slot, math.max(state.tat, state.blocked))
end

return slot_reports -- seldom used
