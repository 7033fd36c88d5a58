-- Needs: keys, queue, slots, in_slots
-- The requests that wait: of each slot in a queue of its own, and in REQUESTS those whose slot no worker knows yet.
-- '' stands for the slot of these.
-- has_drifted: a slot of the index had no requests: somebody has taken them away
local waiting = {}
-- So many slots are looked at where that number is wrong.
local COUNTED = 1000

function waiting.key(slot)
  return slot == '' and REQUESTS or SLOT_REQUESTS .. slot
end

-- Whatever somebody has put at the key of a slot makes way, so that no slot stops the others.
local function make_way(slot)
  local key = waiting.key(slot)
  if slot ~= '' and queue.type and wrong_type({{key, queue.type}}) then
    -- No slot's name ends so: see codec/slots.py.
    redis.call('RENAME', key, key .. '~garbage')
    tally.garbage = key .. '~garbage'
  end
end

-- Call use(key, …) for the key of a slot.
local function change(use, slot, ...)
  if slot == '' then return use(REQUESTS, ...) end
  local key = SLOT_REQUESTS .. slot
  if pcall(use, key, ...) then return end
  make_way(slot)
  use(key, ...)
end

-- -> how many wait; call: redis.pcall, to be given the error if a key is of another type
function waiting.length(call)
  local flat, count = queue.length(REQUESTS, call), (call or redis.call)('ZCARD', SLOTS)
  if has_failed(flat) then return flat end
  return has_failed(count) and count or flat + in_slots.count(count)
end

-- Somebody has taken requests of slots away, so that META's number cannot be right any more.
-- It is counted anew; of very many slots some by chance are, and stand for all.
function waiting.count_anew()
  local count = redis.call('ZCARD', SLOTS)
  local counted, sum = redis.call('ZRANDMEMBER', SLOTS, COUNTED), 0
  for _, slot in ipairs(counted) do
    local length = waiting.length_of(slot)
    if length == 0 then redis.call('ZREM', SLOTS, slot) end
    sum = sum + length
  end
  local total = #counted < count and math.floor(sum * count / #counted) or sum
  in_slots.set(total)
end

-- -> how many of a slot
function waiting.length_of(slot)
  local length = queue.length(waiting.key(slot), redis.pcall)
  if not has_failed(length) then return length end
  make_way(slot)
  return 0
end

-- ranks, requests, slot_of: lists of -priorities, of requests and of their slots, in order of arrival
function waiting.push(ranks, requests, slot_of)
  local scores, first, more, order, named = queue.scores(ranks), {}, {}, {}, {}
  for i, slot in ipairs(slot_of) do
    if not first[slot] then
      first[slot], order[#order + 1] = i, slot
      if slot ~= '' then named[#named + 1] = slot end
    else
      local its = more[slot]
      if not its then
        its = {{scores[first[slot]]}, {requests[first[slot]]}}
        more[slot] = its
      end
      its[1][#its[1] + 1], its[2][#its[2] + 1] = scores[i], requests[i]
    end
  end
  slots.enter(named)
  for _, slot in ipairs(order) do
    local its, i = more[slot], first[slot]
    if slot ~= '' then in_slots.add((its and #its[2] or 1)) end
    if its then change(queue.add, slot, its[1], its[2]) else change(queue.add_one, slot, scores[i], requests[i]) end
  end
end

-- entries: {score, request, slot}: what was taken, to where it stood; the first to be taken again comes first
function waiting.put_back(entries)
  local by_slot, order, named = {}, {}, {}
  for _, entry in ipairs(entries) do
    local slot = entry[3]
    if not by_slot[slot] then
      by_slot[slot], order[#order + 1] = {}, slot
      if slot ~= '' then named[#named + 1] = slot end
    end
    by_slot[slot][#by_slot[slot] + 1] = entry
  end
  slots.enter(named)
  for _, slot in ipairs(order) do
    if slot ~= '' then in_slots.add(#by_slot[slot]) end
    change(queue.put_back, slot, by_slot[slot])
  end
end

-- -> scores, requests of at most n of a slot, next first
function waiting.take(slot, n)
  local scores, requests = queue.take(waiting.key(slot), n)
  if slot ~= '' then in_slots.add(-#requests) end
  return scores, requests
end

-- -> score, request of the next of a slot; nil if there is none
function waiting.take_one(slot)
  local score, request = queue.take_one(waiting.key(slot))
  if request and slot ~= '' then in_slots.add(-1) end
  return score, request
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
    local length = waiting.length_of(slot)
    if length > most then longest, most = slot, length end
  end
  if not longest then return {}, {}, '' end
  local scores, requests = queue.drop(SLOT_REQUESTS .. longest, n)
  in_slots.add(-#requests)
  if #requests == most then redis.call('ZREM', SLOTS, longest) end
  return scores, requests, longest
end

return waiting
