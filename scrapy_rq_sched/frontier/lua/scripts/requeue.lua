-- Needs: keys, queue, slots/lanes, slots/in_slots, store/leases, store/groups, store/put_back, fleet/export_notes
-- Remove entries from the failed list, and put their requests and seeds back to their places.
--
-- ARGV  a worker name for the caller, how many entries the failed list keeps, again (0/1: put them back, or only
--       remove them), marker: a text that no entry can have, n, then n times: place in the list where the entry was
--       read, entry, its value as a lease (see store/leases.lua)
-- Reply {entries found: somebody may have removed others meanwhile, entries searched for}; the caller must ask again
--       for the rest. {-1, 0}: the frontier is being exported, and the export would miss requests that move
local worker, most_failed, again, marker = argument(), number(), argument(), argument()
local problem = wrong_type(types()) or queue.type and wrong_type({{REQUESTS, queue.type}})
if problem then
  return wrong_type_error(problem)
end

export_notes.note({}, server_time())
if export_notes.on then return {-1, 0} end
despite_full_memory()

-- Searching for an entry takes time in proportion to the list. So search only if the list has changed, and only a few
-- times: in most cases the oldest entries were removed, and all others have moved by the same number of places.
local length = redis.call('LLEN', FAILED)
local searches, shift = math.max(1, math.floor(50000 / math.max(1, length))), 0

-- Redis 6.2 walks from the end that the sign selects, however far the place is.
local function from_nearer_end(place)
  return place < length / 2 and place or place - length
end

-- -> the place of *entry*, or nil; and whether this is certain
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

-- Let a request be in its groups again.
local function rejoin(name, value)
  local _, _, _, request = leases.read(value)
  groups.join(name, groups.member(request))
end

-- Removing entries one by one would walk through the list for each. So mark them first, and remove all marks at once.
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
    -- See store/failures.lua: in a JSON string, this text would have backslashes. Of what a name may have, cjson escapes '/'.
    local name = string.match(entry, ',"groups":"([^"]*)"') or string.match(entry, '^{"groups":"([^"]*)"')
    if name and again == '1' then rejoin(string.gsub(name, '\\/', '/'), value) end
  end
end
-- LREM begins at the nearer end and stops after the last mark.
if found > 0 then redis.call('LREM', FAILED, first < length / 2 and found or -found, marker) end
if again == '1' then
  put_back(back, worker, most_failed, server_time())
  for _, lease in ipairs(back) do
    local _, _, _, _, place = leases.read(lease[2])
    local slot = lanes.split(place)
    -- Somebody expects that the site can be reached again.
    local learnt = slot ~= '' and redis.pcall('HGET', SLOT .. slot, 'learnt')
    if learnt and not has_failed(learnt) and string.find(learnt, '^gone') then redis.call('HDEL', SLOT .. slot, 'learnt') end
  end
end
in_slots.write()
return {found, handled}
