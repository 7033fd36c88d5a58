-- Needs: keys, slots, waiting, leases, limits, exchange/said, exchange/handing, exchange/limited
-- What waits is handed out: slots take turns.
local turns = {}
-- Of those that wait, so many are passed over. So many slots have their turn before it is counted anew how much each
-- may give; and so many more are looked at, if some may have to wait for their time.
local PASSED_OVER, MOST_SLOTS, WAIT = 1000, 256, 64

-- At most *most* of a slot; *begins*: when each may begin, nil for at once. What is passed over is set back as well: it
-- must not keep anybody from the rest. Few are taken at first.
-- -> how many no longer wait, and how many of these were handed out
local function from_slot(turn, slot, most, begins)
  local chunk, gone, handed = 1, 0, 0
  while most > 0 and turn.want > 0 and turn.passed_over < PASSED_OVER and turn.bytes < leases.MAX_BYTES do
    local scores, taken = waiting.take(slot, math.min(most, turn.want, chunk))
    if #taken == 0 then break end
    local too_much = {}
    most, gone = most - #taken, gone + #taken
    for i, request in ipairs(taken) do
      local before = #turn.leases
      if turn.bytes >= leases.MAX_BYTES then
        too_much[#too_much + 1] = {scores[i], request, slot}
      elseif not handing.admit(turn, 'request', scores[i], request, slot, begins and begins[handed + 1]) then
        turn.passed_over = turn.passed_over + 1
        local name = turn.worker .. '/' .. said.exchange .. '.p' .. turn.passed_over
        leases.park('request', scores[i], name, request, slot, turn.now)
      end
      if #turn.leases > before then handed = handed + 1 end
    end
    if #too_much > 0 then waiting.put_back(too_much) end
    gone = gone - #too_much
    chunk = math.min(4 * chunk, PASSED_OVER)
  end
  return gone, handed
end

-- One slot, whose score is *score*, has its turn.
-- -> how many of its requests no longer wait; whether it may have another turn in this exchange
local function serve(turn, slot, score, each, is_limited)
  local there, begins, following, state = waiting.length_of(slot), nil, nil, nil
  local most = math.min(there, each)
  if is_limited and there > 0 then begins, following, state = limited.turns(turn, slot, most) end
  local gone, handed = from_slot(turn, slot, begins and #begins or most, begins)
  if not begins then
    slots.served(slot, there - gone)
    return gone, true
  end
  limits.handed(state, turn.worker, begins, following, handed)
  local time = begins[handed + 1] or following
  -- Most of those whose time has not come stand where they should.
  if gone > 0 or time ~= tonumber(score) then slots.served(slot, there - gone, time) end
  return gone, false
end

-- Slots take turns, and so that none waits for a longer one, each gives as many as the others. What is of no known slot
-- is handed out as if it were one more slot. A slot that has to wait for its time is not asked again, nor one of which
-- this worker has enough.
function turns.take(turn)
  local flat, is_limited, closed = waiting.length_of(''), limited.is_on(turn), {}
  local more, ahead = is_limited and WAIT or 0, is_limited and said.ahead or 0
  for _, slot in ipairs(said.sated or {}) do closed[slot], more = true, more + 1 end
  while turn.want > 0 and turn.passed_over < PASSED_OVER and turn.bytes < leases.MAX_BYTES do
    local due, open = slots.due(math.min(turn.want, MOST_SLOTS) + more, ahead), {}
    for i = 1, #due, 2 do
      if not closed[due[i]] then open[#open + 1] = i end
    end
    local each = math.ceil(turn.want / math.max(1, #open + (flat > 0 and 1 or 0)))
    local progress = from_slot(turn, '', math.min(flat, each))
    flat = flat - progress
    for _, i in ipairs(open) do
      if turn.want <= 0 then break end
      local gone, is_open = serve(turn, due[i], due[i + 1], each, is_limited)
      closed[due[i]] = not is_open
      -- An empty one is no longer in the index.
      progress = progress + math.max(gone, is_open and 1 or 0)
    end
    slots.write()
    if progress == 0 then break end
  end
end

return turns
