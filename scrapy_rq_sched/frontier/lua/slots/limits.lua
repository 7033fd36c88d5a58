-- Needs: keys, slots/slots, slots/lanes, slots/own_slots, number_of, slots/downloads, slots/shared_slots, slots/slot_patterns, slots/backoff, slots/outside_turns
-- The limits of slots, and the states of slots with limits. exchange/admission.lua decides whether a request may begin. SLOT_LIMITS has two kinds of fields:
--   <slot>      the limits of a slot that the settings name, as
--               '<delay in milliseconds> <jitter, a share of the delay> <concurrency> <rules>'. They are valid as long as
--               META's field rules is the same. (An older version has written the limits that somebody has set, too, with
--               'set' for the rules, mixed with those of the settings.)
--   set <slot>  the limits that somebody has set during the crawl, as '<delay> <jitter> <concurrency>'; '-' is not set
-- A limit that is not set is that of the settings: of the slot's name, or else of the first pattern that fits (see
-- slots/slot_patterns.lua), or else META's slot_default.
-- SLOT..slot is the state of a slot with limits, a hash:
--   tat       the server's time (milliseconds) from which the next request may begin. Each turn moves it by the delay,
--             whenever the turn is used, so that it does not drift. (The name is from GCRA, ITU-T I.371.)
--   delay     the slot's delay (milliseconds) when the state was written
--   sent      when its last request was sent, as far as is known
--   owner, pending  the worker that has turns of the slot, and how many of them it has not begun. While it has any, no
--             other worker gets turns: the owner alone keeps the gaps between them, however late it is. The owner is
--             '' if the last one has left the slot to others.
--   blocked   the time until which the slot gives no request; block_reason: what its site has answered, '' if an operator
--             has blocked it
--   throttle  '<delay> <delay of the settings>': what AutoThrottle's formula has found, see slots/throttle.lua. It replaces
--             the delay of the settings as long as that is the same: without AutoThrottle, it would be another
--   robots    the Crawl-delay of its robots.txt (milliseconds). A shorter delay does not count, and no jitter makes a gap
--             shorter than it
--             A delay that somebody has set replaces both
--   learnt    the delay that was learnt from the slot's answers: see slots/backoff.lua. A longer one than that of the limits
--             replaces it
--   outside, outside_next  see slots/outside_turns.lua
--   last, asked, asked_by  see slots/shared_slots.lua
--   a:<worker>  how many leases of that worker are not downloaded yet, and until when they count
--   kept      the time until which the key is kept, if no worker downloads there
-- If SLOT is not the frontier's own, other spiders keep the same limits with these states (FRONTIER_SLOTS_KEY).
local limits = {}
-- The time of a turn that may begin at once.
limits.AT_ONCE = 1
-- The states that this script has read with the limits in force, by slot; and those that write() will write. If other
-- spiders use the states, too, each is read and written at once.
local known, changed
at_begin(function() known, changed = {}, {} end)

-- -> delay, jitter and concurrency of a slot; whether any of them was set during the crawl; and whether the delay was.
-- The names in settings are in lower case, and apply to slots in any case.
local function limits_in_force(slot, all)
  local delay, jitter, concurrency = all.delay or 0, all.jitter or 0, all.concurrency or 0
  if not all.has_own then return delay, jitter, concurrency, false, false end
  local function apply(its_delay, its_jitter, its_concurrency)
    delay, jitter = number_of(its_delay, delay), number_of(its_jitter, jitter)
    concurrency = number_of(its_concurrency, concurrency)
    return its_delay and its_delay ~= '-'
  end
  local found = redis.call('HMGET', SLOT_LIMITS, slot, string.lower(slot), slots.SET .. slot)
  local named_delay, named_jitter, named_concurrency, rules = string.match(
    found[1] or found[2] or '', '^(%S+) (%S+) (%S+) (%S+)$')
  local was_set, sets_delay = rules == 'set', false
  if rules ~= all.rules then apply(slot_patterns.limits_of(slot)) end
  if was_set or rules == all.rules then
    sets_delay = apply(named_delay, named_jitter, named_concurrency) and was_set
  end
  if not found[3] then return delay, jitter, concurrency, was_set, sets_delay end
  sets_delay = apply(string.match(found[3], '^(%S+) (%S+) (%S+)$')) or sets_delay
  return delay, jitter, concurrency, true, sets_delay
end

-- Find the delay and the jitter of a slot that answers do not slow down: least_delay, least_jitter. own_delay, own_jitter:
-- those of the limits in force
local function find_least(state)
  local delay, jitter = state.own_delay, state.own_jitter
  if not state.sets_delay then
    if state.throttle > 0 then delay = state.throttle end
    if state.robots > 0 then
      if delay > state.robots then
        jitter = math.min(jitter, 1 - state.robots / delay)
      else
        delay, jitter = state.robots, 0
      end
    end
  end
  state.least_delay, state.least_jitter, state.delay, state.jitter = delay, jitter, delay, jitter
end

-- -> the delay in *text*, the field throttle, if it was found with that of the settings; 0: none
local function throttled(text, own_delay, all)
  local delay, own = string.match(text, '^(%S+) (%S+)$')
  -- Spiders that share slots may begin with different delays.
  local counts = own == decimal(own_delay) or slots.are_shared and all.throttles
  return counts and number_of(delay, 0) or 0
end

-- Set the Crawl-delay of a slot, or what AutoThrottle has found. -> by how much its delay is longer than before
function limits.set(state, name, delay)
  local before = state.delay
  state[name], state['is_' .. name .. '_new'] = delay, true
  find_least(state)
  backoff.set(state)
  if state.delay ~= before then state.is_delay_stored = false end
  return state.delay - before
end

-- -> whether the slot has a delay of its own: the workers do not know it from their settings
function limits.has_own_delay(state)
  return state.is_learnt or state.robots > 0 or state.throttle > 0
end

-- -> the state of a slot, as Redis has it. A value of another type at its key is deleted.
local function read(slot, all)
  local flat = redis.pcall('HGETALL', SLOT .. slot)
  if has_failed(flat) then
    redis.call('UNLINK', SLOT .. slot)
    flat = {}
  end
  local tat, was, owner, pending, sent, blocked, block_reason, kept, asked, asked_by, last, workers, learnt, robots, throttle, outside, outside_next
  local active = 0
  for i = 1, #flat, 2 do
    local name, value = flat[i], flat[i + 1]
    if name == 'tat' then tat = value
    elseif name == 'delay' then was = value
    elseif name == 'owner' then owner = value
    elseif name == 'pending' then pending = value
    elseif name == 'sent' then sent = value
    elseif name == 'kept' then kept = value
    elseif name == 'blocked' then blocked = value
    elseif name == 'asked' then asked = value
    elseif name == 'asked_by' then asked_by = value
    elseif name == 'last' then last = value
    elseif name == 'learnt' then learnt = value
    elseif name == 'robots' then robots = value
    elseif name == 'throttle' then throttle = value
    elseif name == 'outside' then outside = value
    elseif name == 'outside_next' then outside_next = value
    elseif name == 'block_reason' then block_reason = value
    elseif string.sub(name, 1, 2) == 'a:' then
      local worker = string.sub(name, 3)
      workers = workers or {}
      workers[worker], active = true, active + downloads.count(value, worker)
    end
  end
  local delay, jitter, concurrency, is_set, sets_delay = limits_in_force(slot, all)
  tat, was = number_of(tat, 0), number_of(was, nil)
  local state = {
    slot = slot, stays = all.stays, leaves = all.leaves, active = active, workers = workers,
    owner = owner or '', pending = number_of(pending, 0), sent = number_of(sent, 0), tat = tat,
    delay = delay, jitter = math.min(1, jitter), concurrency = concurrency, sets_delay = sets_delay,
    blocked = number_of(blocked, 0), block_reason = block_reason or '', kept = number_of(kept, 0),
    own_delay = delay, own_jitter = math.min(1, jitter), least_concurrency = concurrency, is_learnt = false,
    robots = number_of(robots, 0), throttle = throttle and throttled(throttle, delay, all) or 0,
    outside = outside or '', outside_next = outside_next or '', least_delay = delay, least_jitter = math.min(1, jitter),
  }
  if robots or throttle then find_least(state) end
  if learnt and learnt ~= '' then backoff.apply(state, learnt) end
  delay = state.delay
  state.is_delay_stored = was == delay
  -- If the delay was longer when tat was set, move tat back, but keep at least the present delay after the last turn.
  if all.delay and was and was > delay then
    state.tat = math.max(tat - (was - delay) * (1 - state.jitter), outside_turns.earliest(state))
  end
  if is_set then state.is_set = true end
  if slots.have_parties() then state.asked, state.asked_by, state.last = number_of(asked, 0), asked_by or '', last or '' end
  if all.delay and not slots.are_shared then known[slot] = state end
  return state
end

-- -> the state of a place's slot
function limits.of(place, all)
  local slot, party = place, META
  if slots.has_lanes ~= false then slot, party = shared_slots.party_of(place) end
  local state = all.delay and known[slot] or read(slot, all)
  if slots.have_parties() then state.party = party end
  -- If requests of the slot wait in lanes, the slot is not left to the worker that had it last: that one may not serve them.
  if slots.has_lanes then state.stays = all.stays and not lanes.has(slot) end
  return state
end

-- -> the latest time that a state is about, from which on it is kept for a while
function limits.latest(state)
  local latest = math.max(state.tat, state.blocked)
  return state.learnt and math.max(latest, backoff.kept_until(state.learnt) - slots.KEPT) or latest
end

-- Write a state, and renew its time to live if half of it is over.
local function write_state(state)
  local fields, latest = {'tat', decimal(state.tat), 'pending', whole(state.pending)}, limits.latest(state)
  local n = #fields
  if state.is_sent_new then
    fields[n + 1], fields[n + 2], n, state.is_sent_new = 'sent', decimal(state.sent), n + 2, nil
  end
  if state.delay > 0 and state.is_owner_new then
    fields[n + 1], fields[n + 2], n, state.is_owner_new = 'owner', state.owner, n + 2, nil
  end
  if state.is_learnt_new then
    fields[n + 1], fields[n + 2] = 'learnt', state.learnt and backoff.text(state.learnt) or ''
    n, state.is_learnt_new = n + 2, nil
  end
  if state.is_robots_new then
    fields[n + 1], fields[n + 2], n, state.is_robots_new = 'robots', decimal(state.robots), n + 2, nil
  end
  if state.is_throttle_new then
    fields[n + 1], fields[n + 2], n, state.is_throttle_new = 'throttle', decimal(state.throttle) .. ' ' .. decimal(state.own_delay), n + 2, nil
  end
  if state.is_outside_new then
    fields[n + 1], fields[n + 2], fields[n + 3], fields[n + 4] = 'outside', state.outside, 'outside_next', state.outside_next
    n, state.is_outside_new = n + 4, nil
  end
  if state.is_block_new then
    fields[n + 1], fields[n + 2], fields[n + 3], fields[n + 4] = 'blocked', decimal(state.blocked), 'block_reason', state.block_reason
    n, state.is_block_new = n + 4, nil
  end
  if not state.is_delay_stored then
    fields[n + 1], fields[n + 2], n, state.is_delay_stored = 'delay', state.delay, n + 2, true
  end
  local till, is_renewed = slots.kept_until(latest), false
  if state.active > 0 or not (state.kept <= till and 2 * state.kept > till + latest) then
    is_renewed, state.kept = true, state.active > 0 and 0 or till
    fields[n + 1], fields[n + 2] = 'kept', whole(state.kept)
  end
  redis.call('HSET', SLOT .. state.slot, unpack(fields))
  if is_renewed then slots.keep_state(state.slot, latest, state.active > 0) end
end

local function write()
  for slot, state in pairs(changed) do
    changed[slot] = nil
    write_state(state)
  end
end
writers[#writers + 1] = write

-- Note that a state has changed.
local function change(state)
  if slots.are_shared then return write_state(state) end
  changed[state.slot] = state
end
limits.change = change

-- Write the state of a slot that is about to be changed in Redis by other means, and read it again afterwards.
function limits.forget(slot)
  if changed[slot] then write_state(changed[slot]) end
  changed[slot], known[slot] = nil, nil
end

local is_seeded
at_begin(function() is_seeded = false end)

function limits.interval(state)
  if state.jitter == 0 then return state.delay end
  if not is_seeded then
    -- Redis seeds the random numbers of every script with the same value.
    math.randomseed(slots.now() * 1000 % 2147483647)
    is_seeded = true
  end
  local least = state.delay * (1 - state.jitter)
  return least + 2 * (state.delay - least) * math.random()
end

-- -> whether a slot that is due is left for a moment to the worker that had it last
function limits.is_left(state, worker)
  if not state.stays or state.delay == 0 or state.owner == '' then return false end
  return state.owner == worker or downloads.lives(state.owner) == true
end

-- -> the score of a slot whose next turn is at *time*
function limits.score(state, worker, time)
  return limits.is_left(state, worker) and own_slots.leave(state.owner, state.slot, time) or slots.score(time)
end

-- Set the next turn of a slot, also in the index of *worker*, its owner, if the slot is left to it.
function limits.set_turn(state, worker)
  local time = math.max(state.tat, state.blocked, slots.FIRST_TIME / 1000)
  -- Without a delay, the time is the first of all, and each download that ends would put the slot before the others.
  local of_lanes = state.delay > 0 and time or math.max(time, slots.now())
  slots.set(state.slot, limits.score(state, worker, time), slots.score(of_lanes))
end

-- Note that *used* of these turns were handed out, each with a lease.
function limits.handed(state, worker, begins, following, used)
  if used == 0 then return end
  local has_owner = state.owner == worker
  if not has_owner then
    if state.owner ~= '' then own_slots.forget(state.owner, state.slot) end
    state.is_owner_new = true
  end
  if state.delay > 0 then
    if state.outside ~= '' then outside_turns.end_row(state) end
    state.tat = begins[used + 1] or following
    state.pending = has_owner and state.pending + used or used
  end
  if slots.have_parties() then shared_slots.had(state) end
  state.owner = worker
  if state.concurrency > 0 then
    downloads.note(state.slot, worker, used)
    state.active, state.workers = state.active + used, state.workers or {}
    state.workers[worker] = true
  end
  change(state)
end

return limits -- seldom used
