-- Needs: keys, slots/slots, slots/lanes, slots/own_slots, number_of, slots/downloads, slots/backoff, slots/limits, slots/shared_slots, fleet/events, exchange/header, exchange/slot_policy
-- Admission: whether a request may begin now; and if not, why, and from when. No other module decides this, but
-- exchange/outside.lua for requests that are sent without the scheduler. The worker's own rules are in worker/admission.py.
-- To add a rule, add it to one of the lists OF_SLOT, OF_ENTRY and OF_PUSH; the first rule that refuses counts.
--
-- A rule about a slot is asked before requests are taken from its queue:
--   rule(state, ask)  -> nil; or the time (milliseconds) at which to ask again, the cause, and whether the slot's other
--                     parties are told that this one has asked (see slots/shared_slots.lua). It changes nothing in
--                     Redis, because `status` and `explain` ask it, too.
-- state: of the slot, see slots/limits.lua; ask: worker, now, ahead, lease_ms, not_before; most: how many turns are wanted, which
-- a rule may reduce
--
-- A rule about an entry is asked after a request or seed was taken from its queue, before it becomes a lease:
--   rule.refuses(step, entry)  -> nil; or from when any worker may ask again: now, if only this worker may not have it
--   rule.admitted(step, entry) note that the entry becomes a lease
--   rule.cause                 why; rule.is_for_seeds: whether seeds from the seeds' keys are also asked about
-- entry: request; place; deaths: how many of its workers died; history: its history
-- These rules are asked only if any request has a history (step.remembered), which is rare.
-- A refused entry is set back (leases.park) with that time and the cause, whatever refused it. Workers sleep until the
-- first of all these times.
--
-- A rule about a push is asked before the request enters a queue:
--   rule.defers(step, entry)   -> nil; or from when it may begin. entry: the further fields of Push
--
-- step: suspects: how many suspects this worker holds; why: the cause for which a slot first gave nothing; limits_sent:
-- slot -> limits that the worker does not have in its settings
local admission = {}
-- After Redis came back with older data, no request of a slot begins for this many milliseconds, or for the slot's
-- delay if that is longer. During this time a worker may still have turns that Redis no longer knows.
local QUIET = 2000
-- For how long a slot is passed over if another worker has its turns, in milliseconds.
local PASSED_OVER_FOR = 250
-- How often, in milliseconds, a lane asks for a turn that another lane of the slot has: if it came late, the slot would idle.
local SHARED_FOR = 100

-- -- the rules about slots --

local function is_blocked(state, ask)
  if state.blocked > ask.now then return state.blocked, 'blocked' end
end

-- Spiders that share a slot, and the lanes of one spider, take turns.
local function is_of_another_party(state)
  if not slots.have_parties() then return end
  local is_left, is_of_spider = shared_slots.is_left_to_another(state)
  if not is_left then return end
  if is_of_spider then return state.asked, 'spider' end
  return math.min(state.asked, slots.now() + SHARED_FOR), 'worker'
end

-- The slot is asked again when a download has ended; or after a lease's time, in case no worker reports that.
local function has_no_room(state, ask)
  if state.concurrency > 0 then ask.most = math.min(ask.most, state.concurrency - state.active) end
  if ask.most > 0 then return end
  local is_shared = slots.has_lanes and lanes.has(state.slot)
  return ask.now + (is_shared and SHARED_FOR or ask.lease_ms), 'concurrency', true
end

local function has_another_worker(state, ask)
  if state.delay == 0 or state.owner == ask.worker then return end
  if state.pending > 0 and ask.now < state.tat + ask.lease_ms and downloads.lives(state.owner) ~= false then
    return state.tat > ask.now and state.tat or ask.now + PASSED_OVER_FOR, 'worker', true
  end
  local is_asked = slots.have_parties() and shared_slots.is_left_to(state)
  if not is_asked and ask.now < state.tat + own_slots.LEFT_FOR and limits.is_left(state, ask.worker) then
    return state.tat, 'worker', slots.has_lanes
  end
end

-- The owner's turns may come ahead of their time; another worker gets only turns that are due.
local function is_too_soon(state, ask)
  if state.delay == 0 then return end
  local horizon = state.owner == ask.worker and ask.now + ask.ahead or ask.now
  ask.first = math.max(state.tat, ask.now, ask.not_before)
  ask.horizon = horizon
  if ask.first > horizon then return ask.first, 'delay', true end
end

local OF_SLOT = {is_blocked, is_of_another_party, has_no_room, has_another_worker, is_too_soon}

-- -> the times of at most ask.most turns; and when there may be more
local function turns_from(state, ask)
  local begins = {}
  if state.delay == 0 then
    for i = 1, ask.most do begins[i] = limits.AT_ONCE end
    return begins
  end
  local at = ask.first
  while #begins < ask.most and at <= ask.horizon do
    begins[#begins + 1] = at
    at = at + limits.interval(state)
  end
  return begins, at
end

-- -> whether no rule is asked about a slot that is not blocked
local function has_no_limits(state)
  return state.delay + state.concurrency == 0
end

-- -> nil; or from when to ask again, why, and whether other spiders are told
local function first_block(state, ask)
  for _, rule in ipairs(OF_SLOT) do
    local again_at, cause, has_asked = rule(state, ask)
    if again_at then return again_at, backoff.is_down(state) and 'unreachable' or cause, has_asked end
  end
end

-- -> what the rules are asked about *most* turns of a slot for *worker*
function admission.ask_for(step, state, worker, most)
  -- Each slot may have sent a request that Redis has forgotten.
  local rewound = number_of(step.meta.rewound, 0)
  return {
    worker = worker, now = slots.now(), ahead = header.ahead or 0, lease_ms = header.lease_ms, most = most,
    not_before = rewound > 0 and rewound + math.max(QUIET, state.delay) or 0,
  }
end

-- -> the state of a slot; and nil, or from when the worker that has its turns may be given one, and why not before.
-- Nothing is changed. *waits*: whether the slot has waiting requests; if not, only a block of the slot counts.
function admission.look(step, slot, waits)
  local state = limits.of(slot, slot_policy.all)
  local is_blocked = state.blocked > slots.now()
  if not is_blocked and (not waits or has_no_limits(state)) then return state end
  return state, first_block(state, admission.ask_for(step, state, state.owner, 1))
end

-- Tell the worker limits that were set or learnt during the crawl, because its settings have others.
function admission.tell(step, state)
  local has_own_delay = limits.has_own_delay(state)
  if not (state.is_set or has_own_delay) then return end
  step.limits_sent = step.limits_sent or {}
  step.limits_sent[state.slot] = {
    state.delay, state.jitter, state.concurrency, state.sets_delay and 'set' or has_own_delay, state.is_learnt,
  }
end

-- Find at most *most* turns of a slot.
-- -> when each may begin (limits.AT_ONCE: at once), when there may be more turns, and the slot's state; nil if the slot
-- has no limits
function admission.grants(step, slot, most)
  local state, now = limits.of(slot, slot_policy.all), slots.now()
  admission.tell(step, state)
  if state.blocked > 0 and state.blocked <= now then
    redis.call('HDEL', SLOT .. state.slot, 'blocked', 'block_reason')
    events.tell('slot_free', nil, {slot = state.slot})
    state.blocked, state.block_reason = 0, ''
    step.freed = step.freed or {}
    step.freed[#step.freed + 1] = state.slot
  end
  if has_no_limits(state) and state.blocked == 0 then return nil end
  local ask = admission.ask_for(step, state, step.worker, most)
  local again_at, cause, has_asked = first_block(state, ask)
  if again_at then
    if state.active > 0 then slots.keep_state(state.slot, limits.latest(state), true) end
    if has_asked and slots.have_parties() then shared_slots.ask_for(state, again_at, limits.latest(state)) end
    step.why = step.why or cause
    return {}, again_at, state
  end
  local begins, following = turns_from(state, ask)
  return begins, following, state
end

-- -- the rules about entries --

-- -> the time of an entry that another worker may have now
local function at_once()
  return math.floor(slots.now())
end

-- A request that this worker has refused is for other workers, while there is one that has not refused it.
local refused = {cause = 'refused', is_for_seeds = true}

-- -> whether all living workers that may have requests of *place* have refused the request
function admission.is_refused_by_all(history, now, place)
  local is_laned = place and slots.is_laned(place)
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '(' .. now, '+inf')) do
    local may_have_it = not is_laned or lanes.are_offered(place, lanes.offers_of(name))
    if may_have_it and not string.find(history, 'refused:' .. name .. '@', 1, true) then return false end
  end
  return true
end

function refused.refuses(step, entry)
  local is_its_own = string.find(entry.history, 'refused:' .. step.worker .. '@', 1, true)
  return is_its_own and not admission.is_refused_by_all(entry.history, step.now, entry.place) and at_once()
end

function refused.admitted() end

-- A suspect, of which several workers died, is handed out alone: a worker holds at most one. So other requests are not
-- blamed for its deaths. For seeds the worker itself takes care of this, except for seeds that were set back.
local suspect = {cause = 'suspect'}

function suspect.refuses(step, entry)
  return entry.deaths >= header.suspicious and step.suspects > 0 and at_once()
end

function suspect.admitted(step, entry)
  if entry.deaths >= header.suspicious then step.suspects = step.suspects + 1 end
end

local OF_ENTRY = {refused, suspect}

-- -> nil if this worker may have the entry; or from when to ask again, and why
function admission.refusal(step, entry, is_seed)
  for _, rule in ipairs(OF_ENTRY) do
    local due = (rule.is_for_seeds or not is_seed) and rule.refuses(step, entry)
    if due then return due, rule.cause end
  end
end

-- Note that the entry becomes a lease.
function admission.admitted(step, entry, is_seed)
  for _, rule in ipairs(OF_ENTRY) do
    if rule.is_for_seeds or not is_seed then rule.admitted(step, entry) end
  end
end

-- -- the rules about pushes --

-- A request may wait for a time that its worker gives.
local time = {cause = 'time'}

function time.defers(_, entry)
  return entry.not_before > slots.now() and entry.not_before
end

local OF_PUSH = {time}

-- -> nil if the i-th push may begin; or from when, and why
function admission.deferral(step, i)
  local entry = {}
  for name, column in pairs(header.columns) do entry[name] = column[i] end
  for _, rule in ipairs(OF_PUSH) do
    local due = rule.defers(step, entry)
    if due then return due, rule.cause end
  end
end

return admission -- seldom used
