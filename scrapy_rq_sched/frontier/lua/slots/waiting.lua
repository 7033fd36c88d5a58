-- Needs: keys, queue, slots/slots, slots/in_slots
-- The waiting requests. Each slot has its own queue; REQUESTS has the requests without a known slot, whose slot is ''.
-- waiting.empty: how many slots in the index had no requests, because somebody has removed them
local waiting = {}
-- The maximum number of slots that are counted again if the total is wrong.
local COUNTED = 1000
-- The number of requests without a known slot, once this script has counted them.
local slotless
at_begin(function() slotless, waiting.empty = nil, 0 end)

function waiting.key(slot)
  return slot == '' and REQUESTS or SLOT_REQUESTS .. slot
end

-- If the key of a slot has a wrong type, rename it, so that this slot does not block the others.
local function make_way(slot)
  local key = waiting.key(slot)
  if slot ~= '' and queue.type and wrong_type({{key, queue.type}}) then
    -- No slot's name ends like this: see codec/slots.py.
    redis.call('RENAME', key, key .. '~garbage')
    tally.garbage = key .. '~garbage'
  end
end

-- -> use(key, …) for the key of a slot
local function change(use, slot, ...)
  if slot == '' then return use(REQUESTS, ...) end
  local key = SLOT_REQUESTS .. slot
  local is_done, result = pcall(use, key, ...)
  if is_done then return result end
  make_way(slot)
  return use(key, ...)
end

-- Note that *n* more requests of a slot wait; fewer, if it is negative.
local function count(slot, n)
  if slot ~= '' then
    in_slots.add(n)
  elseif slotless then
    slotless = slotless + n
  end
end

-- -> the number of waiting requests; with redis.pcall as *call*, the error if a key has a wrong type
function waiting.length(call)
  local flat, n_slots = slotless or queue.length(REQUESTS, call), slots.count(call)
  if has_failed(flat) then return flat end
  slotless = flat
  return has_failed(n_slots) and n_slots or flat + in_slots.count(n_slots)
end

-- Somebody has removed requests of slots, so META's number is wrong. Count again; of very many slots, count a random
-- sample and estimate the total.
function waiting.count_anew()
  local n_slots, counted, sum = slots.count(), slots.random(COUNTED), 0
  for _, slot in ipairs(counted) do
    local length = waiting.length_of(slot)
    if length == 0 then
      slots.remove(slot)
      waiting.empty = waiting.empty + 1
    end
    sum = sum + length
  end
  local is_sample = #counted < n_slots
  in_slots.set(is_sample and math.floor(sum * n_slots / #counted) or sum, is_sample, waiting.empty)
end

-- -> the number of waiting requests of a slot
function waiting.length_of(slot)
  if slot == '' and slotless then return slotless end
  local length = queue.length(waiting.key(slot), redis.pcall)
  if not has_failed(length) then return length end
  make_way(slot)
  return 0
end

-- ranks, requests: lists of negative priorities and of requests, in order of arrival; slot_of: the list of their slots,
-- or the slot of all
function waiting.push(ranks, requests, slot_of)
  local scores, first, more, order, named = queue.scores(ranks), {}, {}, {}, {}
  if type(slot_of) == 'string' then
    if slot_of ~= '' then slots.enter({slot_of}) end
    return count(slot_of, change(queue.add, slot_of, scores, requests))
  end
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
    if its then
      count(slot, change(queue.add, slot, its[1], its[2]))
    else
      count(slot, change(queue.add_one, slot, scores[i], requests[i]))
    end
  end
end

-- Put requests back to their places. entries: {score, request, slot}, in the order in which they will be taken again
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
    count(slot, change(queue.put_back, slot, by_slot[slot]))
  end
end

-- -> scores, requests: at most n of a slot, the next request first
function waiting.take(slot, n)
  local scores, requests = queue.take(waiting.key(slot), n)
  count(slot, -#requests)
  return scores, requests
end

-- -> score, request of the next request of a slot; nil if there is none
function waiting.take_one(slot)
  local score, request = queue.take_one(waiting.key(slot))
  if request then count(slot, -1) end
  return score, request
end

-- -> scores, requests, slot: at most n of the requests that would come last. If requests wait by slot, they are from
-- the longest of a few random slots: no index knows which of a million slots has the lowest priority.
function waiting.drop(n)
  if n <= 0 then return {}, {}, '' end
  if waiting.length_of('') > 0 then
    local scores, requests = queue.drop(REQUESTS, n)
    count('', -#requests)
    return scores, requests, ''
  end
  local longest, most = nil, 0
  for _, slot in ipairs(slots.random(10)) do
    local length = waiting.length_of(slot)
    if length > most then longest, most = slot, length end
  end
  if not longest then return {}, {}, '' end
  local scores, requests = queue.drop(SLOT_REQUESTS .. longest, n)
  in_slots.add(-#requests)
  if #requests == most then slots.remove(longest) end
  return scores, requests, longest
end

return waiting
