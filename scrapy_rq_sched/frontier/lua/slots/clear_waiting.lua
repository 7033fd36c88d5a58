-- Needs: keys, slots/lanes
-- Delete all waiting requests and the index of their slots: see slots/waiting.lua.
local clear_waiting = {}
-- The number of cleared slots whose requests are deleted at once.
local AT_ONCE = 100

-- Delete the requests of at most n cleared slots. -> whether there are more
function clear_waiting.sweep(n)
  local cleared = redis.call('LINDEX', SLOTS_CLEARED, 0)
  if not cleared then return false end
  -- Another program may have written the list: no other key than an index of this frontier may lose its members.
  local is_own = string.sub(cleared, 1, #SLOTS_CLEARED + 1) == SLOTS_CLEARED .. ':'
  local slots = is_own and redis.pcall('ZPOPMIN', cleared, n) or {}
  for i = 1, has_failed(slots) and 0 or #slots, 2 do
    -- A new crawl may already have requests in the same slot.
    if not redis.call('ZSCORE', SLOTS, slots[i]) then redis.call('UNLINK', SLOT_REQUESTS .. slots[i]) end
  end
  if not is_own or has_failed(slots) or redis.call('EXISTS', cleared) == 0 then redis.call('LPOP', SLOTS_CLEARED) end
  return redis.call('EXISTS', SLOTS_CLEARED) == 1
end

-- Delete the queue, even if its keys have wrong types. The requests of most slots are left to clear_waiting.sweep().
function clear_waiting.clear()
  redis.call('UNLINK', REQUESTS)
  local slots = redis.pcall('ZCARD', SLOTS)
  if has_failed(slots) then
    redis.call('UNLINK', SLOTS)
  elseif slots > 0 then
    local cleared = SLOTS_CLEARED .. ':' .. exact_time()
    if wrong_type({{SLOTS_CLEARED, 'list'}}) then redis.call('UNLINK', SLOTS_CLEARED) end
    redis.call('RENAME', SLOTS, cleared)
    redis.call('RPUSH', SLOTS_CLEARED, cleared)
    clear_waiting.sweep(AT_ONCE)
  end
  lanes.clear()
  redis.call('HDEL', META, 'in_slots', 'in_slots_estimated')
end

-- -> the slot, if this script was called with a slot's queue as REQUESTS; else false
local function waiting_slot()
  return string.sub(REQUESTS, 1, #SLOT_REQUESTS) == SLOT_REQUESTS and string.sub(REQUESTS, #SLOT_REQUESTS + 1)
end

-- Count *n* requests as removed, if this script was called with a slot's queue as REQUESTS.
function clear_waiting.removed(n)
  local slot = waiting_slot()
  if n == 0 or not slot then return end
  local count = tonumber(redis.call('HGET', META, 'in_slots') or '') or 0
  redis.call('HSET', META, 'in_slots', string.format('%.0f', math.max(0, count - n)))
  if redis.call('EXISTS', REQUESTS) == 1 then return end
  redis.call('ZREM', SLOTS, slot)
  lanes.remove(slot)
end

-- Note that priorities in a slot's queue have changed: with FRONTIER_ORDER, its slot may get another turn.
function clear_waiting.changed()
  local slot = waiting_slot()
  if not slot then return end
  local _, lane = lanes.split(slot)
  redis.call('ZADD', lane and LANE .. lane or SLOTS, 'XX', exact_time(), slot)
end

return clear_waiting -- seldom used
