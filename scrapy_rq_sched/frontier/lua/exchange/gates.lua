-- Needs: keys, exchange/said
-- Gates: the rules by which an entry that waits is not for this worker, or not now.
-- gate.admits(turn, entry)  -> may this worker have it?
-- gate.handed(turn, entry)  it was handed out
--
-- entry: request; deaths: how many of its workers died; history: what befell it
-- They look at what befell an entry: where nothing befell any, all are open.
--
-- turn: suspects: how many this worker has in hand

-- What a worker has refused is for another, as long as there is one that has not.
local refusals = {}

function refusals.are_of_all(history, now)
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '(' .. now, '+inf')) do
    if not string.find(history, 'refused:' .. name .. '@', 1, true) then return false end
  end
  return true
end

function refusals.admits(turn, entry)
  local refused = string.find(entry.history, 'refused:' .. turn.worker .. '@', 1, true)
  return not refused or refusals.are_of_all(entry.history, turn.now)
end

function refusals.handed() end

-- What has killed often is given to a worker one at a time, so that what only stood beside it is not taken for
-- the cause.
local suspects = {}

function suspects.admits(turn, entry)
  return entry.deaths < said.suspicious or turn.suspects < 1
end

function suspects.handed(turn, entry)
  if entry.deaths >= said.suspicious then turn.suspects = turn.suspects + 1 end
end

local ALL = {refusals, suspects}
local gates = {refusals = refusals}

function gates.admit(turn, entry)
  for _, gate in ipairs(ALL) do
    if not gate.admits(turn, entry) then return false end
  end
  for _, gate in ipairs(ALL) do gate.handed(turn, entry) end
  return true
end

return gates -- seldom used
