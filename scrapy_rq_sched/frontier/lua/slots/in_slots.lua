-- Needs: keys, number_of
-- The number of requests that wait in all slots: the field in_slots of META. Counting them each time would be too slow.
-- If the field in_slots_estimated is '1', that number is from a random sample of the slots.
-- in_slots.missing: how many requests this script found to be missing, though no script has removed them: somebody has
-- deleted, emptied or evicted the queues of slots
local in_slots = {}
-- The number in META, once it was read; its change in this script; whether it is an estimate; and whether it was set.
local known, changed, is_estimated, was_set
at_begin(function() known, changed, is_estimated, was_set, in_slots.missing = nil, 0, nil, false, 0 end)

-- Tell this module the values in META, if the caller has already read them.
function in_slots.know(count, estimated)
  known, is_estimated = number_of(count, 0), estimated == '1'
end

-- Add *n*, which may be negative.
function in_slots.add(n)
  changed = changed + n
end

-- Set the number after counting the requests. *estimated*: it is from a sample; *empty*: how many slots had no request,
-- though each slot in the index had at least one. An estimate may be far from the truth, so only the empty slots tell
-- of a loss then.
function in_slots.set(n, estimated, empty)
  local certain = not (estimated or is_estimated)
  in_slots.missing = in_slots.missing + math.max(0, certain and (known or 0) + changed - n or empty)
  known, changed, is_estimated, was_set = n, 0, estimated, true
end

-- -> the number of requests. It is at least the number of *slots*, even if META's number is too low.
function in_slots.count(slots)
  if slots == 0 then
    if known and known + changed ~= 0 then in_slots.set(0, false, 0) end
    return 0
  end
  known = known or number_of(redis.call('HGET', META, 'in_slots'), 0)
  return math.max(slots, known + changed)
end

-- Write the number to META, after the script's last change of waiting requests.
-- fields: a list of fields that the caller is about to write to META; nil to write at once
function in_slots.write(fields)
  if changed == 0 and not was_set then return end
  known = known or number_of(redis.call('HGET', META, 'in_slots'), 0)
  local count = whole(math.max(0, known + changed))
  local written = {'in_slots', count}
  if was_set then written[3], written[4] = 'in_slots_estimated', is_estimated and '1' or '0' end
  known, changed, was_set = tonumber(count), 0, false
  if not fields then return redis.call('HSET', META, unpack(written)) end
  for _, field in ipairs(written) do fields[#fields + 1] = field end
end

return in_slots
