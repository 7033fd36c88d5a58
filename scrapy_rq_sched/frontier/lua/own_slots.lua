-- Needs: keys, slots
-- SLOTS_OF..worker, the index of the slots that a worker had last, by when each gives its next request. For a moment after
-- that they are left to this worker, for it has their connections, their cookies and their robots.txt: their score in SLOTS
-- is the end of the moment. The index may name slots that the worker no longer has, or that have no requests.
-- LEFT_FOR: milliseconds of that moment
local own_slots = {LEFT_FOR = 1000}
-- Milliseconds for which the index of a worker stays that writes none.
local KEPT = 600000
-- What own_slots.write() is to write.
local left = {}

-- A slot has its next turn at *time*, and is left to *worker*. Noted for own_slots.write(). -> its score in SLOTS
function own_slots.leave(worker, slot, time)
  local its = left[worker] or {}
  left[worker], its[#its + 1], its[#its + 2] = its, slots.score(time), slot
  return slots.score(time + own_slots.LEFT_FOR)
end

function own_slots.write()
  for worker, its in pairs(left) do
    local key = SLOTS_OF .. worker
    -- Whatever somebody has put there makes way.
    if wrong_type({{key, 'zset'}}) then redis.call('UNLINK', key) end
    in_chunks(its, function(...) redis.call('ZADD', key, ...) end)
    redis.call('PEXPIRE', key, KEPT)
  end
  left = {}
end

-- -> those of {slot, score, …} that have waiting requests; *worker*'s index forgets the others
local function only_waiting(own, worker)
  local names, kept, gone = {}, {}, {}
  for i = 1, #own, 2 do names[#names + 1] = own[i] end
  for i, score in ipairs(redis.call('ZMSCORE', SLOTS, unpack(names))) do
    if score then kept[#kept + 1], kept[#kept + 2] = own[2 * i - 1], own[2 * i] else gone[#gone + 1] = names[i] end
  end
  if #gone > 0 then redis.call('ZREM', SLOTS_OF .. worker, unpack(gone)) end
  return kept
end

-- -> the slots of two lists {slot, score, …}, each once, those of the lower score first
local function merged(one, other)
  local names, has, i, j = {}, {}, 1, 1
  while i < #one or j < #other do
    local is_one = j > #other or i < #one and tonumber(one[i + 1]) <= tonumber(other[j + 1])
    local slot = is_one and one[i] or other[j]
    if is_one then i = i + 2 else j = j + 2 end
    if not has[slot] then has[slot], names[#names + 1] = true, slot end
  end
  return names
end

-- -> slots that are due within *ahead* milliseconds, those first that are due longest: at most *n* that are anybody's, and
-- at most *n* that *worker* had last
function own_slots.due(n, ahead, worker)
  local till = slots.till(ahead)
  local own = redis.pcall('ZRANGEBYSCORE', SLOTS_OF .. worker, '-inf', till, 'WITHSCORES', 'LIMIT', 0, n)
  if #own == 0 then return slots.due(n, ahead) end
  local all = redis.call('ZRANGEBYSCORE', SLOTS, '-inf', till, 'WITHSCORES', 'LIMIT', 0, n)
  return merged(only_waiting(own, worker), all)
end

-- -> from when there may be a turn for *worker*; nil if nothing waits in any slot
function own_slots.next(worker)
  local first = slots.next()
  if not first then return nil end
  local own = redis.pcall('ZRANGE', SLOTS_OF .. worker, 0, 0, 'WITHSCORES')
  return math.min(first, (tonumber(own[2] or '') or math.huge) / 1000)
end

return own_slots -- seldom used
