-- Needs: keys, slots/slots, number_of
-- The delay that the fleet has learnt from a slot's answers: the field learnt of the slot's state,
-- '<kind> <delay> <good delay> <raised> <since> <answers>', all times in milliseconds.
--   kind         'search': after the first bad answer, the delay falls by a tenth each STEP; 'keep': it was too short, so the
--                last good delay holds, and falls by a hundredth each ANSWERS good answers; 'asked': the site has asked to
--                wait, so the delay is as before. Only if it asks again, it is asked too fast; 'down': the site cannot be
--                reached. One request at a time tries, after growing pauses, which are the delay; 'gone': the same for so long
--                that the requests that wait are set aside
--   good delay   the last delay with which all answers were good; 0 if there is none. Of a site that cannot be reached, the
--                delay that was learnt before
--   raised       when the delay was last raised; since, answers: when it last changed, and how many good answers came since.
--                Of a site that cannot be reached, since is when that was first seen
-- Without a bad answer for FORGIVEN milliseconds, or for two delays, the field no longer counts. A block counts as a bad answer
-- at its end.
-- REASON: why the requests of a slot that is given up are set aside
local backoff = {REASON = 'the site of its slot could not be reached for longer than FRONTIER_SLOT_GIVE_UP'}
local FORGIVEN = 1800000
-- The share of a learnt delay by which it varies at most, so that slots that were slowed down together do not come back
-- together.
local JITTER = 0.1
local SEARCH, STEP, KEEP, ANSWERS = 0.9, 1500, 0.99, 100
-- How long after a raise the answers may be to requests that other workers sent before they knew of it.
local SETTLING = 500
-- A delay shorter than this is none.
local SHORTEST = 5
-- How many failures in a row a worker must have until a site counts as one that cannot be reached; and the longest pause
-- between two attempts: each costs a request one of its retries, and nothing else tells when the site is back.
local IN_A_ROW, LONGEST_PAUSE = 3, 60000

-- -> what *text*, the field, says; nil if nothing is learnt
local function read(text)
  local kind, delay, good, raised, since, answers = string.match(text, '^(%l+) (%S+) (%S+) (%S+) (%S+) (%d+)$')
  local learnt = {
    kind = kind, delay = number_of(delay, 0), good = number_of(good, 0), raised = number_of(raised, 0),
    since = number_of(since, 0), answers = number_of(answers, 0),
  }
  return kind and backoff.kept_until(learnt) > slots.now() and learnt or nil
end

-- -> the field for a state
function backoff.text(learnt)
  if not learnt then return '' end
  return string.format('%s %s %s %s %s %d', learnt.kind, decimal(learnt.delay), decimal(learnt.good), whole(learnt.raised),
    whole(learnt.since), learnt.answers)
end

-- Let the delay of a state be the one that *text* tells, if it is longer than that of the limits in force, which is
-- least_delay. is_learnt: whether it is
function backoff.apply(state, text)
  state.learnt = read(text)
  backoff.set(state)
end

function backoff.set(state)
  local its = state.learnt and state.learnt.delay or 0
  local is_longer = its > state.least_delay
  local delay = is_longer and its or state.least_delay
  if delay ~= state.delay then state.is_delay_stored = false end
  state.delay, state.jitter, state.is_learnt = delay, state.least_jitter, is_longer or backoff.is_down(state)
  state.concurrency = backoff.is_down(state) and 1 or state.least_concurrency
  -- No gap becomes shorter than the limits in force permit.
  if is_longer then state.jitter = math.min(JITTER, 1 - state.least_delay * (1 - state.least_jitter) / delay) end
end

-- A request that was sent at *sent* had a bad answer, with which the site asks to wait for *wait*. The first delay is at least
-- *shortest*; none is longer than *longest*.
-- -> nil if the delay stays as it is, also because the request was sent before it was raised, or it is the longest already;
-- 'slower' if it is the longest so far, 'back' if it was good before
function backoff.slow_down(state, sent, wait, shortest, longest)
  local learnt, now, before = state.learnt, slots.now(), state.delay
  if learnt and sent < learnt.raised + math.min(SETTLING, learnt.delay / 2) then return nil end
  local goes_back, delay, kind = learnt and learnt.good > learnt.delay, 2 * state.delay, 'search'
  if goes_back then
    delay, kind = learnt.good, 'keep'
  elseif not learnt and wait > 0 then
    delay, kind = 0, 'asked'
  elseif not learnt or learnt.kind == 'asked' then
    delay = math.max(shortest, delay)
  end
  state.learnt = {
    kind = kind, delay = math.min(delay, math.max(longest, state.least_delay)), good = 0, raised = now, since = now, answers = 0,
  }
  backoff.set(state)
  return state.delay > before and (goes_back and 'back' or 'slower') or nil
end

-- *answers* good answers came. -> whether the limits in force hold again
function backoff.speed_up(state, answers)
  local learnt, now = state.learnt, slots.now()
  if learnt.kind == 'asked' then return false end
  learnt.answers = learnt.answers + answers
  local is_search = learnt.kind == 'search'
  local is_due = learnt.answers >= ANSWERS
  if is_search then is_due = now - learnt.since >= math.max(STEP, learnt.delay) end
  if is_due then
    learnt.good, learnt.delay = learnt.delay, learnt.delay * (is_search and SEARCH or KEEP)
    learnt.since, learnt.answers = now, 0
  end
  local is_over = learnt.delay <= math.max(state.least_delay, SHORTEST)
  if is_over then state.learnt = nil end
  backoff.set(state)
  return is_over
end

-- -> whether the site cannot be reached
function backoff.is_down(state)
  local kind = state.learnt and state.learnt.kind
  return kind == 'down' or kind == 'gone'
end

-- -> whether the requests of the slot that wait must be set aside
function backoff.is_gone(state)
  return state.learnt and state.learnt.kind == 'gone'
end

-- A worker could not reach the site *failures* times in a row, the last time with a request of *sent*. The first pause is at
-- least *shortest*, none is longer than *longest*; the slot is given up after *patience*, 0: never.
-- -> nil if nothing changes; 'down': the site cannot be reached; 'again': still not; 'gone': it is given up
function backoff.lose(state, failures, sent, shortest, longest, patience)
  local learnt, now, was_down = state.learnt, slots.now(), backoff.is_down(state)
  if not was_down and failures < IN_A_ROW then return nil end
  -- Only an attempt after the pause is news: other requests were sent before it.
  if was_down and sent < learnt.raised + (1 - JITTER) * learnt.delay then return nil end
  local pause = was_down and 2 * learnt.delay or math.max(shortest, state.delay)
  local most = math.max(state.least_delay, math.min(longest, LONGEST_PAUSE))
  local since = was_down and learnt.since or now
  -- What was learnt before holds again when the site is back.
  local good = was_down and learnt.good or learnt and learnt.kind ~= 'asked' and learnt.delay or 0
  local is_gone = patience > 0 and now - since >= patience
  state.learnt = {
    kind = is_gone and 'gone' or 'down', delay = math.min(pause, most), good = good, raised = now, since = since, answers = 0,
  }
  backoff.set(state)
  if is_gone then return learnt.kind == 'gone' and 'again' or 'gone' end
  return was_down and 'again' or 'down'
end

-- The site has answered. -> whether it could not be reached before
function backoff.reach(state)
  if not backoff.is_down(state) then return false end
  local now, delay = slots.now(), state.learnt.good
  state.learnt = delay > 0 and {kind = 'keep', delay = delay, good = 0, raised = now, since = now, answers = 0} or nil
  backoff.set(state)
  return true
end

-- -> until when it counts
function backoff.kept_until(learnt)
  return learnt.raised + math.max(FORGIVEN, 2 * learnt.delay)
end

return backoff -- seldom used
