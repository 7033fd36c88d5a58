-- Needs: keys, slots, own_slots, waiting, exchange/said, exchange/limited, exchange/serving, exchange/priority_turns
-- What waits is handed out: slots take turns.
local turns = {}
-- So many slots have their turn before it is counted anew how much each may give; and so many more are looked at, if
-- some may have to wait for their time.
local MOST_SLOTS, WAIT = 256, 64
-- So many slots are few.
local FEW = 32

-- Slots take turns, and so that none waits for a longer one, each gives as many as the others. What is of no known slot
-- is handed out as if it were one more slot. A slot that has to wait for its time is not asked again, nor one of which
-- this worker has enough.
function turns.take(turn)
  turns.serve(turn)
  -- What somebody has deleted must not keep the crawl from its end until its slot's time has come.
  local is_idle = said.want > 0 and #turn.leases == 0 and redis.call('ZCARD', SLOTS) <= FEW
  if waiting.has_drifted or is_idle then waiting.count_anew() end
end

function turns.serve(turn)
  if said.order == 'priority' then return priority_turns.take(turn) end
  local flat, is_limited, closed = waiting.length_of(''), limited.is_on(turn), {}
  local more, ahead = is_limited and WAIT or 0, is_limited and said.ahead or 0
  for _, slot in ipairs(said.sated or {}) do closed[slot], more = true, more + 1 end
  while serving.has_room(turn) do
    local count, open = math.min(turn.want, MOST_SLOTS) + more, {}
    local due = is_limited and own_slots.due(count, ahead, turn.worker) or slots.due(count, ahead)
    for _, slot in ipairs(due) do
      if not closed[slot] then open[#open + 1] = slot end
    end
    local each = math.ceil(turn.want / math.max(1, #open + (flat > 0 and 1 or 0)))
    local progress = serving.take(turn, '', math.min(flat, each))
    flat = flat - progress
    for _, slot in ipairs(open) do
      if turn.want <= 0 then break end
      local gone, is_open = serving.serve(turn, slot, each, is_limited)
      closed[slot] = not is_open
      -- An empty one is no longer in the index.
      progress = progress + math.max(gone, is_open and 1 or 0)
    end
    slots.write()
    if is_limited then own_slots.write() end
    if progress == 0 then break end
  end
end

return turns
