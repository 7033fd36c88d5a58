-- Needs: keys, slots/slots, slots/own_slots, number_of, slots/downloads, slots/shared_slots, slots/slot_patterns
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
--             other worker gets turns: the owner alone keeps the gaps between them, however late it is.
--   blocked   the time until which the slot gives no request
--   last, asked, asked_by  see slots/shared_slots.lua
--   a:<worker>  how many leases of that worker are not downloaded yet, and until when they count
-- If SLOT is not the frontier's own, other spiders keep the same limits with these states (FRONTIER_SLOTS_KEY).
local limits = {}
-- The time of a turn that may begin at once.
limits.AT_ONCE = 1

-- -> delay, jitter and concurrency of a slot; whether any of them was set during the crawl; and whether the delay was.
-- The names in settings are in lower case, and apply to slots in any case.
local function limits_in_force(slot, all)
  local delay, jitter, concurrency = all.delay or 0, all.jitter or 0, all.concurrency or 0
  local function apply(its_delay, its_jitter, its_concurrency)
    delay, jitter = number_of(its_delay, delay), number_of(its_jitter, jitter)
    concurrency = number_of(its_concurrency, concurrency)
    return its_delay and its_delay ~= '-'
  end
  if not all.has_own then return delay, jitter, concurrency, false, false end
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

-- -> the state of a slot. A value of another type at its key is deleted.
function limits.of(slot, all)
  local flat = redis.pcall('HGETALL', SLOT .. slot)
  if has_failed(flat) then
    redis.call('UNLINK', SLOT .. slot)
    flat = {}
  end
  local fields, active = {}, 0
  for i = 1, #flat, 2 do
    fields[flat[i]] = flat[i + 1]
    if string.sub(flat[i], 1, 2) == 'a:' then active = active + downloads.count(flat[i + 1], string.sub(flat[i], 3)) end
  end
  local delay, jitter, concurrency, is_set, sets_delay = limits_in_force(slot, all)
  -- If the delay was longer when tat was set, move tat back, but keep at least the present delay after the last turn.
  local tat, was = number_of(fields.tat, 0), number_of(fields.delay, delay)
  if all.delay then tat = tat - math.max(0, was - delay) * (1 - math.min(1, jitter)) end
  return {
    slot = slot, stays = all.stays, is_set = is_set, sets_delay = sets_delay, active = active,
    owner = fields.owner or '', pending = number_of(fields.pending, 0), sent = number_of(fields.sent, 0),
    delay = delay, jitter = math.min(1, jitter), concurrency = concurrency, tat = tat,
    is_delay_stored = number_of(fields.delay, -1) == delay, blocked = number_of(fields.blocked, 0),
    asked = number_of(fields.asked, 0), asked_by = fields.asked_by or '', last = fields.last or '',
  }
end

-- Write fields of a state, including the time of its next turn, and renew its time to live.
function limits.keep(state, ...)
  if state.is_delay_stored then
    redis.call('HSET', SLOT .. state.slot, ...)
  else
    redis.call('HSET', SLOT .. state.slot, 'delay', state.delay, ...)
    state.is_delay_stored = true
  end
  slots.keep_state(state.slot, math.max(state.tat, state.blocked), state.active > 0)
end

function limits.interval(state)
  local least = state.delay * (1 - state.jitter)
  return least + 2 * (state.delay - least) * math.random()
end

-- Redis seeds the random numbers of every script with the same value.
math.randomseed(slots.now() * 1000 % 2147483647)

-- -> whether a slot that is due is left for a moment to the worker that had it last
function limits.is_left(state, worker)
  if not state.stays or state.delay == 0 or state.owner == '' then return false end
  return state.owner == worker or downloads.lives(state.owner) == true
end

-- -> the score of a slot whose next turn is at *time*
function limits.score(state, worker, time)
  return limits.is_left(state, worker) and own_slots.leave(state.owner, state.slot, time) or slots.score(time)
end

-- Note that *used* of these turns were handed out, each with a lease.
function limits.handed(state, worker, begins, following, used)
  if used == 0 then return end
  if slots.are_shared then shared_slots.had(state) end
  if state.delay > 0 then
    state.tat = begins[used + 1] or following
    if state.owner == worker then
      limits.keep(state, 'tat', decimal(state.tat), 'pending', whole(state.pending + used))
    else
      limits.keep(state, 'tat', decimal(state.tat), 'owner', worker, 'pending', whole(used))
    end
  end
  if state.owner ~= worker then
    if state.owner ~= '' then own_slots.forget(state.owner, state.slot) end
    state.owner = worker
  end
  if state.concurrency > 0 then
    downloads.note(state.slot, worker, used)
    state.active = state.active + used
    limits.keep(state, 'tat', decimal(state.tat))
  end
end

return limits -- seldom used
