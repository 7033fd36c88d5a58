-- Needs: keys, number_of
-- The number of requests that wait in all slots: the field in_slots of META. Counting them each time would be too slow.
local in_slots = {}
-- The number in META, once it was read; its change in this script; and whether the requests were counted.
local known, changed, was_counted = nil, 0, false

-- Tell this module the value in META, if the caller has already read it.
function in_slots.know(said)
  known = number_of(said, 0)
end

-- Add *n*, which may be negative.
function in_slots.add(n)
  changed = changed + n
end

-- Set the number after counting the requests.
function in_slots.set(n)
  known, changed, was_counted = 0, n, true
end

-- -> the number of requests. It is at least the number of *slots*, even if META's number is too low.
function in_slots.count(slots)
  if slots == 0 then return 0 end
  known = known or number_of(redis.call('HGET', META, 'in_slots'), 0)
  return math.max(slots, known + changed)
end

-- Write the number to META, after the script's last change of waiting requests.
-- fields: a list of fields that the caller is about to write to META; nil to write at once
function in_slots.settle(fields)
  if changed == 0 and not was_counted then return end
  local count = string.format('%.0f', in_slots.count(redis.call('ZCARD', SLOTS)))
  known, changed, was_counted = tonumber(count), 0, false
  if not fields then return redis.call('HSET', META, 'in_slots', count) end
  fields[#fields + 1], fields[#fields + 2] = 'in_slots', count
end

return in_slots
