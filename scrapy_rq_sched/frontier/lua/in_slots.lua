-- Needs: keys, number_of
-- How many requests wait in all slots: META's in_slots. Nobody could count them each time.
local in_slots = {}
-- How many META says, once it was read; by how much the number has changed in this script; and whether they were counted.
local known, changed, was_counted = nil, 0, false

-- To be called by who has read it already: *said* is what META says.
function in_slots.know(said)
  known = number_of(said, 0)
end

-- *n* more wait; fewer, if that is negative.
function in_slots.add(n)
  changed = changed + n
end

-- They were counted.
function in_slots.set(n)
  known, changed, was_counted = 0, n, true
end

-- -> how many there are, in so many *slots*. If META's number cannot be right, it is as many as there are slots.
function in_slots.count(slots)
  if slots == 0 then return 0 end
  known = known or number_of(redis.call('HGET', META, 'in_slots'), 0)
  return math.max(slots, known + changed)
end

-- To be called when the script is through with what waits.
-- fields: of META, which the caller is about to write; nil to have it written at once
function in_slots.settle(fields)
  if changed == 0 and not was_counted then return end
  local count = string.format('%.0f', in_slots.count(redis.call('ZCARD', SLOTS)))
  known, changed, was_counted = tonumber(count), 0, false
  if not fields then return redis.call('HSET', META, 'in_slots', count) end
  fields[#fields + 1], fields[#fields + 2] = 'in_slots', count
end

return in_slots
