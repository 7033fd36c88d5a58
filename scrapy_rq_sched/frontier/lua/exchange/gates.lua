-- Needs: keys, exchange/said
-- Gates: the rules by which an entry that waits is not for this worker, or not now. A new rule is a new gate in ALL.
-- gate.is_open(turn)        -> does it admit every entry in this exchange? Then it is not asked.
-- gate.admits(turn, entry)  -> may this worker have it?
-- gate.handed(turn, entry)  it was handed out
-- gate.is_for_seeds         whether seeds that come from their key go through it as well
--
-- entry: request; deaths: how many of its workers died; history: what befell it
-- turn: remembered: whether anything befell any; suspects: how many this worker has in hand

-- What a worker has refused is for another, as long as there is one that has not.
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

-- What has killed often is given to a worker one at a time, so that what only stood beside it is not taken for
-- the cause. With seeds the worker sees to that, but for those that were set back.
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

-- -> those that are not open
function gates.closed(turn)
  local closed = {}
  for _, gate in ipairs(ALL) do
    if not gate.is_open(turn) then closed[#closed + 1] = gate end
  end
  return closed
end

-- -> may this worker have it? Then it is counted as handed out.
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
