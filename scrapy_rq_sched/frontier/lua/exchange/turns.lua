-- Needs: keys, slots, waiting, leases, exchange/said, exchange/handing
-- What waits is handed out: slots take turns.
local turns = {}
-- Of those that wait, so many are passed over. So many slots have their turn before it is counted anew how much each
-- may give.
local PASSED_OVER, MOST_SLOTS = 1000, 256

-- At most *most* of a slot. What is passed over is set back as well: it must not keep anybody from the rest. Few are
-- taken at first.
-- -> how many were taken
local function from_slot(turn, slot, most)
  local chunk, count = 1, 0
  while most > 0 and turn.want > 0 and turn.passed_over < PASSED_OVER and turn.bytes < leases.MAX_BYTES do
    local scores, taken = waiting.take(slot, math.min(most, turn.want, chunk))
    if #taken == 0 then break end
    local too_much = {}
    most, count = most - #taken, count + #taken
    for i, request in ipairs(taken) do
      if turn.bytes >= leases.MAX_BYTES then
        too_much[#too_much + 1] = {scores[i], request, slot}
      elseif not handing.admit(turn, 'request', scores[i], request, slot) then
        turn.passed_over = turn.passed_over + 1
        local name = turn.worker .. '/' .. said.exchange .. '.p' .. turn.passed_over
        leases.park('request', scores[i], name, request, slot, turn.now)
      end
    end
    if #too_much > 0 then waiting.put_back(too_much) end
    count = count - #too_much
    chunk = math.min(4 * chunk, PASSED_OVER)
  end
  return count
end

-- Slots take turns, and so that none waits for a longer one, each gives as many as the others. What is of no known slot
-- is handed out as if it were one more slot.
function turns.take(turn)
  local flat = waiting.length_of('')
  while turn.want > 0 and turn.passed_over < PASSED_OVER and turn.bytes < leases.MAX_BYTES do
    local due = slots.due(math.min(turn.want, MOST_SLOTS))
    local each = math.ceil(turn.want / math.max(1, #due + (flat > 0 and 1 or 0)))
    local from_flat = from_slot(turn, '', math.min(flat, each))
    flat = flat - from_flat
    for _, slot in ipairs(due) do
      if turn.want <= 0 then break end
      local there = waiting.length_of(slot)
      slots.served(slot, there - from_slot(turn, slot, math.min(there, each)))
    end
    if #due == 0 and from_flat == 0 then break end
  end
end

return turns
