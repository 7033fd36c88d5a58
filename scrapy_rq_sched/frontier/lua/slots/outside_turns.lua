-- Needs: keys, number_of
-- The last turn of a slot for a request that a worker sends without the scheduler, in two fields of the slot's state:
--   outside       '<time> <worker> <1 or 0>'; 1: it is the last turn of the slot
--   outside_next  '<worker> <time>': the worker that waits until it is known when that turn was used, and since when
local outside_turns = {}

-- -> the shortest time between two requests of a slot
function outside_turns.least_gap(state)
  return state.delay * (1 - state.jitter)
end

-- -> its time and its worker; nil if another request of the slot has had a turn since, or none is known
function outside_turns.last(state)
  local at, worker = string.match(state.outside, '^(%S+) (%S+) 1$')
  if at then return number_of(at, 0), worker end
end

-- Note that there was such a turn, or that it is not the last one of the slot any more.
function outside_turns.note(state, at, worker, is_last)
  state.outside, state.is_outside_new = decimal(at) .. ' ' .. worker .. (is_last and ' 1' or ' 0'), true
end

-- Note that another request of the slot has a turn.
function outside_turns.end_row(state)
  local at, worker = outside_turns.last(state)
  if at then outside_turns.note(state, at, worker, false) end
end

-- -> the time before which no turn may be, because of that one: it is in no worker's count of turns
function outside_turns.earliest(state)
  local at = string.match(state.outside, '^(%S+) %S+ [01]$')
  return at and number_of(at, 0) + outside_turns.least_gap(state) or 0
end

return outside_turns -- seldom used
