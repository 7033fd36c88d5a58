-- Needs: keys, queue, in_slots, put_back, exporting
-- Take entries out of the failed list, and put what they are of back to where it stood.
--
-- ARGV  worker that stands for whoever asks, most that the failed list keeps, again (0/1: put it back; else it
--       is forgotten), marker: what no entry can be, n, then n times: place in the list where it was read,
--       entry, what a lease of it would be (see leases.lua)
-- Reply {how many there were: another may have taken an entry since it was read, how many were looked for};
--       the others are to be asked for again. {-1, 0}: the frontier is exported, and who reads the list would
--       miss what moves
local worker, most_failed, again, marker = argument(), number(), argument(), argument()
local problem = wrong_type(types()) or queue.type and wrong_type({{REQUESTS, queue.type}})
if problem then
  return wrong_type_error(problem)
end

exporting.note({}, server_time())
if exporting.on then return {-1, 0} end
despite_full_memory()

-- To look for an entry takes as long as the list is: only where the list is not as it was read, and not often.
-- Mostly its oldest have been dropped, and all others stand as much further to the front.
local length = redis.call('LLEN', FAILED)
local searches, shift = math.max(1, math.floor(50000 / math.max(1, length))), 0

-- Redis 6.2 counts from the end that the sign says, however far that is.
local function from_nearer_end(place)
  return place < length / 2 and place or place - length
end

-- -> where *entry* is, or nil; and whether that is sure
local function find(entry, expected)
  local place = expected - shift
  if place >= 0 and redis.call('LINDEX', FAILED, from_nearer_end(place)) == entry then return place, true end
  if searches == 0 then return nil, false end
  searches = searches - 1
  place = redis.call('LPOS', FAILED, entry)
  if not place then return nil, true end
  shift = expected - place
  return place, true
end

-- To take entries out one by one would be to go through the list for each: they are marked first.
local back, found, handled, first = {}, 0, 0, length
for i = 1, number() do
  local expected, entry, value = number(), argument(), argument()
  local place, sure = find(entry, expected)
  if not sure then break end
  handled = i
  if place then
    redis.call('LSET', FAILED, from_nearer_end(place), marker)
    first = math.min(first, place)
    found = found + 1
    back[found] = {'0.' .. i, value}
  end
end
-- From the end of the list that is nearer; it stops at the last one.
if found > 0 then redis.call('LREM', FAILED, first < length / 2 and found or -found, marker) end
if again == '1' then put_back(back, worker, most_failed, server_time()) end
in_slots.settle()
return {found, handled}
