-- Needs: keys, filter, fleet/import_target
-- One step of an import: add the integers of a compact filter, which stand for fingerprints.
--
-- ARGV  id, step (its number, from 1), the total number of integers, n, then n integers, grouped by bucket
-- Reply {''}; {'lost'}: this import is no longer under way, and nothing was changed
local id, step, expected, n = argument(), number(), number(), number()
local done = import_target.step(id, step)
if done then return done end
local is_first = redis.call('EXISTS', SEEN_STATE) == 0
local state = filter.load()
-- The integers come bucket by bucket. If the filter grew while they come, the first thousands would all be in one
-- bucket.
-- So create all buckets at the beginning.
if is_first then filter.grow(math.min(2147483648, math.max(1, math.ceil(expected / state.most)))) end
-- Do not convert the rest of an exact filter here: workers do that later.
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
flush()
import_target.count(SEEN_STATE, state.count - before)
return {''}
