-- Needs: keys, exchange/said
-- Gates: rules that keep a waiting entry from this worker, always or only now. To add a rule, add a gate to ALL.
-- gate.is_open(turn)        -> whether it admits all entries in this exchange; then it is not asked about any
-- gate.admits(turn, entry)  -> whether this worker may have the entry
-- gate.handed(turn, entry)  note that the entry was handed out
-- gate.is_for_seeds         whether seeds from the seeds' keys also pass this gate
--
-- entry: request; deaths: how many of its workers died; history: its history
-- turn: remembered: whether any request has a history; suspects: how many suspects this worker holds

-- A request that this worker has refused is for other workers, while there is one that has not refused it.
local refusals = {is_for_seeds = true}

function refusals.are_of_all(history, now)
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '(' .. now, '+inf')) do
    if not string.find(history, 'refused:' .. name .. '@', 1, true) then return false end
  end
  return true
end

function refusals.is_open(turn)
  return not turn.remembered
end

function refusals.admits(turn, entry)
  local refused = string.find(entry.history, 'refused:' .. turn.worker .. '@', 1, true)
  return not refused or refusals.are_of_all(entry.history, turn.now)
end

function refusals.handed() end

-- A suspect, of which several workers died, is handed out alone: a worker holds at most one. So other requests are not
-- blamed for its deaths. For seeds the worker itself takes care of this, except for seeds that were set back.
local suspects = {}

function suspects.is_open(turn)
  return not turn.remembered
end

function suspects.admits(turn, entry)
  return entry.deaths < said.suspicious or turn.suspects < 1
end

function suspects.handed(turn, entry)
  if entry.deaths >= said.suspicious then turn.suspects = turn.suspects + 1 end
end

local ALL = {refusals, suspects}
local gates = {refusals = refusals}

-- -> the gates that are not open
function gates.closed(turn)
  local closed = {}
  for _, gate in ipairs(ALL) do
    if not gate.is_open(turn) then closed[#closed + 1] = gate end
  end
  return closed
end

-- -> whether this worker may have the entry, which then counts as handed out
function gates.admit(turn, entry, is_seed)
  for _, gate in ipairs(turn.gates) do
    if (gate.is_for_seeds or not is_seed) and not gate.admits(turn, entry) then return false end
  end
  for _, gate in ipairs(turn.gates) do
    if gate.is_for_seeds or not is_seed then gate.handed(turn, entry) end
  end
  return true
end

return gates
