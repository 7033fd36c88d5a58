-- Needs: keys, slots/slots, slots/lanes, slots/own_slots, slots/waiting, slots/limits, slots/shared_slots, exchange/header, exchange/slot_policy, exchange/serve_slot, exchange/serve_by_priority
-- Hand out waiting requests: slots take turns.
local serve_slots = {}
-- How many slots have their turn before the share of each is computed again; and how many more are looked at, because
-- some may have to wait for their time.
local MOST_SLOTS, WAIT = 256, 64
-- Up to this number of slots, some are looked at if they give nothing: so many in one exchange.
local FEW, LOOKED_AT = 32, 2

-- -> whether one of a few random slots has no requests
local function has_empty()
  for _, slot in ipairs(slots.random(LOOKED_AT)) do
    if waiting.length_of(slot) == 0 then return true end
  end
end

-- -> the first of the due places in SLOTS and in the lanes with these *keys*
local function due_of_all(keys, count, ahead)
  local found, due = slots.between_all(keys, '-inf', slots.till(ahead), count), {}
  for i = 1, #found, 2 do due[#due + 1] = found[i] end
  return due
end

-- -> of the places of a slot that this worker serves, the one to which the next turn is left, or else the one that had a turn
-- longest ago; places without limits have their turns by their scores. keys: of the lanes
local function next_place(keys, place)
  local state = limits.of(place, slot_policy.all)
  local found, most = place, shared_slots.turns_since(state, place)
  for _, other in ipairs(lanes.places(state.slot, keys)) do
    if shared_slots.is_left_to(state, other) then return other end
    local turns = shared_slots.turns_since(state, other)
    if turns > most then found, most = other, turns end
  end
  return found
end

-- Slots take turns. Each gives the same number of requests, so that no slot waits for a longer one. The requests
-- without a known slot count as one more slot. A slot is not asked again if it must wait for its time, or if this
-- worker has enough of it.
function serve_slots.take(step)
  serve_slots.serve(step)
  -- If somebody has deleted a slot's requests, notice it now. Otherwise the crawl could end only when the slot is due.
  local is_idle = header.want > 0 and #step.leases == 0 and slots.count() <= FEW
  if waiting.empty > 0 or is_idle and has_empty() then waiting.count_anew() end
end

function serve_slots.serve(step)
  local keys = slots.has_lanes and lanes.keys(step.offers) or {}
  if header.slot_order == 'priority' then return serve_by_priority.take(step, keys) end
  local flat, is_limited, closed = waiting.length_of(''), step.is_limited, {}
  local more, ahead = is_limited and WAIT or 0, is_limited and header.ahead or 0
  for _, slot in ipairs(header.saturated or {}) do closed[slot], more = true, more + 1 + #keys end
  while serve_slot.has_room(step) do
    local count, open = math.min(step.want, MOST_SLOTS) + more, {}
    local due = #keys > 0 and due_of_all(keys, count, ahead) or is_limited and own_slots.due(count, ahead, step.worker)
      or slots.due(count, ahead)
    for _, slot in ipairs(due) do
      if not (closed[slot] or #keys > 0 and closed[lanes.split(slot)]) then open[#open + 1] = slot end
    end
    local each = math.ceil(step.want / math.max(1, #open + (flat > 0 and 1 or 0)))
    local progress = serve_slot.take(step, '', math.min(flat, each))
    flat = flat - progress
    local has_more = flat > 0 or #due >= count
    for _, slot in ipairs(open) do
      if step.want <= 0 then break end
      local place = is_limited and #keys > 0 and next_place(keys, slot) or slot
      local gone, is_open = serve_slot.serve(step, place, each, is_limited)
      closed[slot], has_more = not is_open, has_more or is_open
      -- A place whose pool has no free item stays where it is in its lane.
      if step.has_pools and gone == 0 and not is_open and slots.is_laned(place) then more = more + 1 end
      -- A slot that was empty counts as progress: it is no longer in the index.
      progress = progress + math.max(gone, is_open and 1 or 0)
    end
    if progress == 0 or not has_more then break end
  end
end

return serve_slots
