-- Needs: keys, slots/slots, slots/lanes, number_of
-- SLOTS_OF..worker, the index of the slots that a worker had last, by the time of their next request. For a moment
-- after that time, a slot is left to this worker, because it has the slot's connections, cookies and robots.txt: the
-- slot's score in SLOTS is the end of the moment. The index may have slots that the worker no longer has, or without
-- requests.
-- LEFT_FOR: the length of the moment, in milliseconds
local own_slots = {LEFT_FOR = 1000}
-- How long an index is kept after its worker last wrote it, in milliseconds.
local KEPT = 600000
-- The changes that write() will write.
local left
at_begin(function() left = {} end)

-- Note that a slot has its next turn at *time* and is left to *worker*. -> its score in SLOTS
function own_slots.leave(worker, slot, time)
  local its = left[worker] or {}
  left[worker], its[#its + 1], its[#its + 2] = its, slots.score(time), slot
  return slots.score(time + own_slots.LEFT_FOR)
end

local function write()
  for worker, its in pairs(left) do
    local key = SLOTS_OF .. worker
    in_chunks(its, function(...)
      if not has_failed(redis.pcall('ZADD', key, ...)) then return end
      -- Somebody has stored a value of another type there.
      redis.call('UNLINK', key)
      redis.call('ZADD', key, ...)
    end)
    redis.call('PEXPIRE', key, KEPT)
  end
  left = {}
end
writers[#writers + 1] = write

-- *worker* no longer has *slot*.
function own_slots.forget(worker, slot)
  write()
  redis.pcall('ZREM', SLOTS_OF .. worker, slot)
end

-- -> {slot, score, …} without slots that have no waiting requests; these are also removed from the worker's index
local function only_waiting(own, worker)
  local names, kept, gone = {}, {}, {}
  for i = 1, #own, 2 do names[#names + 1] = own[i] end
  for i, score in ipairs(redis.call('ZMSCORE', SLOTS, unpack(names))) do
    if score then kept[#kept + 1], kept[#kept + 2] = own[2 * i - 1], own[2 * i] else gone[#gone + 1] = names[i] end
  end
  if #gone > 0 then redis.call('ZREM', SLOTS_OF .. worker, unpack(gone)) end
  return kept
end

-- -> the slots of two lists {slot, score, …}, each once, by rising score
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

-- -> slots that may give *worker* turns within *ahead* milliseconds, the longest due first: at most *n* of all slots,
-- and at most *n* that it had last. Only the owner of a slot may have turns before they are due, and it has the slot in
-- its index: with 20 workers, nine of ten slots that come within a second would be looked at in vain.
function own_slots.due(n, ahead, worker)
  if slots.are_shared then return slots.due(n, ahead) end
  write()
  local own = redis.pcall('ZRANGEBYSCORE', SLOTS_OF .. worker, '-inf', slots.till(ahead), 'WITHSCORES', 'LIMIT', 0, n)
  if #own == 0 then return slots.due(n, 0) end
  return merged(only_waiting(own, worker), slots.between('-inf', slots.till(0), n, 'WITHSCORES'))
end

-- -> the score of the first slot with waiting requests that *worker* had last, from *after* on; nil if there is none
local function first_own(worker, after)
  while true do
    -- What only_waiting() leaves out is gone the next time.
    local own = redis.pcall('ZRANGEBYSCORE', SLOTS_OF .. worker, after, 'inf', 'WITHSCORES', 'LIMIT', 0, 16)
    if has_failed(own) or #own == 0 then return nil end
    local score = only_waiting(own, worker)[2]
    if score then return score end
  end
end

-- -> when there may be a turn for *worker*, at the earliest now; nil if no slot has waiting requests
-- in_vain: the worker has just asked and was given no request, so ignore the slots that are due now; offers: of the worker
function own_slots.next(worker, in_vain, offers)
  if slots.count() == 0 then return nil end
  local now = slots.now()
  local after = in_vain and '(' .. whole(1000 * now) or '-inf'
  local of_all = redis.call('ZRANGEBYSCORE', SLOTS, after, '(inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  local first = math.min(number_of(of_all, math.huge), number_of(first_own(worker, after), math.huge))
  for _, key in ipairs(slots.has_lanes ~= false and lanes.keys(offers) or {}) do
    first = math.min(first, number_of(lanes.between(key, after, 'inf', 1)[2], math.huge))
  end
  first = first / 1000
  -- All that waits may be in lanes that this worker does not serve.
  if slots.has_lanes and first == math.huge then return nil end
  return first < math.huge and math.max(first, now) or now
end

return own_slots -- seldom used
