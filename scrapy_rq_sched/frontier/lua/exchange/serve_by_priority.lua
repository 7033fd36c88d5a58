-- Needs: keys, slots/slots, slots/lanes, slots/waiting, store/pools, exchange/header, exchange/serve_slot
-- The turns of slots with FRONTIER_ORDER = 'priority': the highest priority of all slots comes first. A slot's score is
-- then the score of its next request. But if the slot must wait for its time, or got new requests since its last turn,
-- the score is a time, as it always is if slots take turns.
local serve_by_priority = {}
-- How many slots are looked at together, how often in an exchange, and how many may give no request.
local AT_ONCE, ROUNDS, IN_VAIN = 256, 4, 64

-- -> the score of a slot's next request; nil if there is none
local function next_score(slot)
  local found = redis.pcall('ZRANGE', waiting.key(slot), 0, 0, 'WITHSCORES')
  local score = tonumber(has_failed(found) and '' or found[2] or '')
  return score and string.format('%.17g', math.min(score, slots.FIRST_TIME - 1))
end

-- Give slots that are due the scores of their next requests.
local function enter_by_priority(keys, ahead)
  local till = slots.till(ahead)
  for _ = 1, ROUNDS do
    local due = slots.between_all(keys, slots.FIRST_TIME, till, AT_ONCE)
    for i = 1, #due, 2 do
      local slot = due[i]
      local score = next_score(slot)
      if not score then waiting.empty = waiting.empty + 1 end
      slots.served(slot, score and 1 or 0, score)
    end
    if #due < 2 * AT_ONCE then return end
  end
end

-- -> slot, score of the first slot that is not closed, and the score of the second; nil for a missing one
-- keys: of the lanes that this worker serves; count: the number of places of closed slots
local function first_two(keys, closed, count)
  local found, first, score = slots.between_all(keys, '-inf', '(' .. slots.FIRST_TIME, count + 2), nil, nil
  for i = 1, #found, 2 do
    if not (closed[found[i]] or #keys > 0 and closed[lanes.split(found[i])]) then
      if first then return first, score, found[i + 1] end
      first, score = found[i], found[i + 1]
    end
  end
  return first, score, nil
end

function serve_by_priority.take(step, keys)
  if not serve_slot.has_room(step) then return end
  local is_limited, closed, count, in_vain = step.is_limited, {}, 0, 0
  for _, slot in ipairs(header.saturated or {}) do closed[slot], count = true, count + 1 + #keys end
  enter_by_priority(keys, is_limited and header.ahead or 0)
  local flat = waiting.length_of('') > 0 and next_score('') or nil
  while serve_slot.has_room(step) and in_vain < IN_VAIN do
    local slot, score, second = first_two(keys, closed, count)
    if flat and (not slot or tonumber(flat) <= tonumber(score)) then
      if serve_slot.take(step, '', 1) == 0 then break end
      flat = next_score('')
    elseif slot then
      local others = math.min(tonumber(second) or math.huge, tonumber(flat) or math.huge)
      -- Take the requests that come before those of all other slots.
      local before = redis.pcall('ZCOUNT', waiting.key(slot), '-inf', string.format('%.17g', others))
      local each = has_failed(before) and 1 or math.max(1, before)
      -- If the slot must wait now, its score becomes a time.
      local gone = serve_slot.serve(step, slot, each, is_limited, next_score)
      if gone == 0 then in_vain = in_vain + 1 end
      -- No item of its pool is free any more.
      if step.has_pools and pools.room(slot, 1) == 0 then closed[slot], count = true, count + 1 end
    else
      break
    end
  end
end

return serve_by_priority -- seldom used
