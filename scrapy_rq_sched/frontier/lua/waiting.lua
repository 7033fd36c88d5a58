-- Needs: keys, queue
-- The requests that wait: of each slot in a queue of its own, and in REQUESTS those whose slot no worker knows yet.
-- '' stands for the slot of these.
--
-- SLOTS is the index. A slot is in it as long as requests of it may wait; what is at the key of any other slot is
-- left from a cleared frontier, and not read. Its score is the server's time (milliseconds) from which the slot may
-- give a request. Those of one script differ by a quarter of a microsecond, which is as exact as a score is: so they
-- keep their order, and a script that runs later, later ones. META has in in_slots how many wait in all slots: only people rely on that number.
local waiting = {}
-- By how much the number that wait in slots has changed in this script; its time, and how many turns it has given.
local changed, moment, given = 0, nil, 0

function waiting.key(slot)
  return slot == '' and REQUESTS or SLOT_REQUESTS .. slot
end

-- Whatever somebody has put at the key of a slot makes way, so that no slot stops the others.
-- -> the key
local function usable_key(slot)
  local key = waiting.key(slot)
  if slot ~= '' and queue.type and wrong_type({{key, queue.type}}) then
    redis.call('RENAME', key, key .. ':garbage')
    tally.garbage = key .. ':garbage'
  end
  return key
end

-- -> how many wait in slots. If META's number cannot be right, it is as many as there are slots.
local function in_slots(slots)
  if slots == 0 then return 0 end
  return math.max(slots, (tonumber(redis.call('HGET', META, 'in_slots') or '') or 0) + changed)
end

-- -> how many wait; call: redis.pcall, to be given the error if a key is of another type
function waiting.length(call)
  local flat, slots = queue.length(REQUESTS, call), (call or redis.call)('ZCARD', SLOTS)
  if has_failed(flat) then return flat end
  return has_failed(slots) and slots or flat + in_slots(slots)
end

-- -> how many of a slot
function waiting.length_of(slot)
  local length = queue.length(waiting.key(slot), redis.pcall)
  if not has_failed(length) then return length end
  usable_key(slot)
  return 0
end

-- To be called when the script is through with what waits.
function waiting.settle()
  if changed == 0 then return end
  local slots = redis.call('ZCARD', SLOTS)
  redis.call('HSET', META, 'in_slots', string.format('%.0f', in_slots(slots)))
  changed = 0
end

-- -> the server's time (milliseconds)
local function now()
  if not moment then
    local time = redis.call('TIME')
    moment = time[1] * 1000 + time[2] / 1000
  end
  return moment
end

-- -> a score behind those of all slots that are due
local function last_turn()
  given = given + 1
  return string.format('%.17g', now() + given / 4096)
end

local function enter(slot)
  if redis.call('ZADD', SLOTS, 'NX', last_turn(), slot) == 1 then redis.call('UNLINK', SLOT_REQUESTS .. slot) end
end

-- ranks, requests, slots: lists of -priorities, of requests and of their slots, in order of arrival
function waiting.push(ranks, requests, slots)
  local scores, by_slot, order = queue.scores(ranks), {}, {}
  for i, request in ipairs(requests) do
    local slot = slots[i]
    local group = by_slot[slot]
    if not group then
      group = {{}, {}}
      by_slot[slot], order[#order + 1] = group, slot
    end
    group[1][#group[1] + 1], group[2][#group[2] + 1] = scores[i], request
  end
  for _, slot in ipairs(order) do
    local group = by_slot[slot]
    if slot ~= '' then
      enter(slot)
      changed = changed + #group[2]
    end
    queue.add(usable_key(slot), group[1], group[2])
  end
end

-- entries: {score, request, slot}: what was taken, to where it stood; the first to be taken again comes first
function waiting.put_back(entries)
  local by_slot, order = {}, {}
  for _, entry in ipairs(entries) do
    local slot = entry[3]
    if not by_slot[slot] then by_slot[slot], order[#order + 1] = {}, slot end
    by_slot[slot][#by_slot[slot] + 1] = entry
  end
  for _, slot in ipairs(order) do
    local its = by_slot[slot]
    if slot ~= '' then
      enter(slot)
      changed = changed + #its
    end
    queue.put_back(usable_key(slot), its)
  end
end

-- -> scores, requests of at most n of a slot, next first
function waiting.take(slot, n)
  local scores, requests = queue.take(waiting.key(slot), n)
  if slot ~= '' then changed = changed - #requests end
  return scores, requests
end

-- The slots that are due, those first that are due longest.
function waiting.due(n)
  return redis.call('ZRANGEBYSCORE', SLOTS, '-inf', now() + 1, 'LIMIT', '0', n)
end

-- A slot has had its turn. Its next is after those of the others; with no request left it has none.
function waiting.served(slot, left)
  if left > 0 then
    redis.call('ZADD', SLOTS, last_turn(), slot)
  else
    redis.call('ZREM', SLOTS, slot)
  end
end

-- n requests of a slot are gone by another hand than a worker's.
function waiting.removed(slot, n)
  if slot ~= '' then changed = changed - n end
end

-- -> scores, requests, slot: at most n of those that would come last. Of slots it is the longest of a few by chance:
-- no index tells in which of a million the lowest priority is.
function waiting.drop(n)
  if n <= 0 then return {}, {}, '' end
  if queue.length(REQUESTS) > 0 then
    local scores, requests = queue.drop(REQUESTS, n)
    return scores, requests, ''
  end
  local longest, most = nil, 0
  for _, slot in ipairs(redis.call('ZRANDMEMBER', SLOTS, 10)) do
    local length = queue.length(SLOT_REQUESTS .. slot)
    if length > most then longest, most = slot, length end
  end
  if not longest then return {}, {}, '' end
  local scores, requests = queue.drop(SLOT_REQUESTS .. longest, n)
  changed = changed - #requests
  return scores, requests, longest
end

return waiting
