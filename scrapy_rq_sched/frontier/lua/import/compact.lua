-- Needs: keys, filter, importing
-- One step of an import: what a compact filter has of the fingerprints seen.
--
-- ARGV  id, step (its number, from 1), how many there will be in all, n, then n integers, those of a bucket
--       together
-- Reply {''}; {'lost'}: this import is no longer under way, and nothing was changed
local id, step, expected, n = argument(), number(), number(), number()
local done = importing.step(id, step)
if done then return done end
local is_first = redis.call('EXISTS', SEEN_STATE) == 0
local state = filter.load()
-- They come one bucket after the other. In a filter that grew with them, all of the first thousands would be in
-- one bucket: so it has from the first as many as they need.
if is_first then filter.grow(math.min(2147483648, math.max(1, math.ceil(expected / state.most)))) end
-- What an exact filter has left is as it was: workers go on to convert it.
state.converts = false

local before, bucket, members = state.count, nil, {}
local function add()
  if bucket then state.count = state.count + filter.call('SADD', bucket, unpack(members)) end
  members = {}
end
for _ = 1, n do
  local member = argument()
  local its = filter.bucket(tonumber(string.sub(member, 1, -10)) - 1)
  if its ~= bucket then
    add()
    bucket = its
  end
  members[#members + 1] = member
end
add()
state.changed = true
filter.settle()
importing.count(SEEN_STATE, state.count - before)
return {''}
