-- Needs: keys, slots/slots, number_of, slots/outside_turns, slots/limits, slots/backoff, slots/shared_slots, fleet/events, exchange/header, exchange/slot_policy
-- What sites have answered, for all workers: a slot is blocked as long as its site asks, or is asked more slowly.
--
-- header.answers: slot -> {how many good answers, whether there was a bad one, how long ago its request was sent, or that of the
--   last failure, for how long the site asks to wait, why, how often in a row it could not be reached, whether it has answered
--   at all, the Crawl-delay of its robots.txt or 0}, times in milliseconds; header.backoff: {the shortest first delay, the longest, after how long
--   without an answer a site is given up}
-- META's field recalled: '<number>:<slot> …', the slots whose leases all workers give back, because these were handed out for
--   other limits; the last ones come first. A number is the time, or one more than the last number. Each worker tells in
--   header.recalled the last number that it knows.
--
-- step: backed_off: slot -> {for how long it is blocked, its new delay, why, whether its site cannot be reached ('down'), also
--   not for so long that it is given up ('gone'), or can be reached again ('up')}, for the log of the worker that has told it
local site_answers = {}
-- For how long a slot is recalled: a worker that was silent for longer has no leases. And how many slots are, at most.
local RECALLED_FOR, MOST = 60000, 1000

-- Have all workers give back their leases of these slots.
local function recall(step, names)
  local before, kept, had = step.meta.recalled or '', {}, {}
  local number = math.max(step.now, number_of(string.match(before, '^%d+'), 0) + 1)
  local oldest = number - math.max(RECALLED_FOR, header.lease_ms)
  for _, slot in ipairs(names) do kept[#kept + 1], had[slot] = whole(number) .. ':' .. slot, true end
  for its, slot in string.gmatch(before, '(%d+):(%S+)') do
    if #kept < MOST and not had[slot] and tonumber(its) > oldest then kept[#kept + 1] = its .. ':' .. slot end
  end
  step.meta.recalled = table.concat(kept, ' ')
  step.meta.limited, step.is_limited = step.meta.limited or slots.ONLY_STATES, true
  redis.call('HSET', META, 'recalled', step.meta.recalled, 'limited', step.meta.limited)
end

-- Block a slot for *period* milliseconds. -> whether it was not blocked for as long before
local function block(state, period, why)
  local till = slots.now() + period
  if till <= state.blocked then return false end
  local was_blocked = state.blocked > slots.now()
  state.blocked, state.is_block_new, state.block_reason = till, true, why
  slots.note_block(till)
  if not was_blocked then events.tell('slot_blocked', nil, {slot = state.slot, seconds = period / 1000, reason = why}) end
  return true
end

local function note(step, state, ...)
  step.backed_off = step.backed_off or {}
  step.backed_off[state.slot] = {...}
end

-- A worker could not reach the site. -> whether leases of the slot must be given back
local function lose(step, state, failures, sent, why)
  local patience = number_of(header.backoff[3], 0)
  local changed = backoff.lose(state, failures, sent, header.backoff[1], header.backoff[2], patience)
  if not changed then return false end
  state.tat = math.max(state.tat, slots.now() + state.delay)
  local its = {slot = state.slot, seconds = state.delay / 1000, reason = why}
  if changed == 'down' then events.tell('slot_unreachable', nil, its) end
  if changed == 'gone' then events.tell('slot_given_up', nil, {slot = state.slot, seconds = patience / 1000, reason = why}) end
  if changed ~= 'again' then note(step, state, 0, changed == 'gone' and patience or state.delay, why, changed) end
  if changed == 'gone' then state.tat = slots.now() end
  state.is_learnt_new = true
  limits.change(state)
  return true
end

-- -> whether leases of the slot must be given back
local function note_crawl_delay(step, state, crawl_delay)
  if state.robots == crawl_delay or limits.set(state, 'robots', crawl_delay) <= 0 then return false end
  state.tat = math.max(state.tat, slots.now() + crawl_delay)
  note(step, state, 0, crawl_delay, '', 'robots')
  return true
end

-- -> whether leases of the slot must be given back
local function hear(step, state, good, is_bad, ago, wait, why, failures, has_answered)
  local now, changed = slots.now(), nil
  if has_answered and backoff.reach(state) then
    events.tell('slot_recovered', nil, {slot = state.slot})
    note(step, state, 0, 0, '', 'up')
    local soonest = math.max(now, state.sent + state.delay, outside_turns.earliest(state))
    state.tat, state.is_learnt_new = math.min(state.tat, soonest), true
    slots.at(state.slot, state.tat)
  end
  if failures > 0 then return lose(step, state, failures, now - ago, why) end
  if is_bad then
    changed = backoff.slow_down(state, now - ago, wait, header.backoff[1], header.backoff[2])
    if changed == 'slower' then
      events.tell('slot_slowed', nil, {slot = state.slot, seconds = state.delay / 1000, reason = why})
    end
  elseif good > 0 and state.learnt and backoff.speed_up(state, good) then
    events.tell('slot_recovered', nil, {slot = state.slot})
  end
  local is_blocked = wait > 0 and block(state, wait, why)
  -- Nothing tells whether the site is asked too fast before it is asked again.
  if is_blocked and state.learnt then state.learnt.raised = math.max(state.learnt.raised, state.blocked) end
  if changed or is_blocked then
    state.tat = math.max(state.tat, math.min(now + state.delay, now + (is_blocked and wait or math.huge)))
    note(step, state, is_blocked and wait or 0, changed == 'slower' and state.delay or 0, why, '')
  end
  state.is_learnt_new = true
  limits.change(state)
  return changed or is_blocked
end

function site_answers.hear(step)
  local names = {}
  for slot, its in pairs(header.answers) do
    local state = limits.of(slot, slot_policy.all)
    local has_delay = its[8] > 0 and note_crawl_delay(step, state, its[8])
    if hear(step, state, unpack(its, 1, 7)) or has_delay then
      names[#names + 1] = slot
      slots.at(slot, math.max(state.tat, state.blocked))
      shared_slots.moved(slot)
    end
  end
  if #names > 0 then recall(step, names) end
end

-- -> {the last number, the slots that were recalled since the last number that the worker knows}; nil if there are none
function site_answers.recalled(step)
  local names, known = {}, header.recalled or 0
  local last = number_of(string.match(step.meta.recalled, '^%d+'), 0)
  if last <= known then return nil end
  -- A worker that has just joined has no leases.
  if header.exchange == 1 then return {last, {}} end
  for number, slot in string.gmatch(step.meta.recalled, '(%d+):(%S+)') do
    if tonumber(number) <= known then break end
    names[#names + 1] = slot
  end
  return {last, names}
end

return site_answers -- seldom used
