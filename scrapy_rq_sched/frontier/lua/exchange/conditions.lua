-- Needs: keys, fleet/events, fleet/export_notes, number_of, slots/slots, slots/lanes, exchange/header
-- Notice the begin and the end of conditions of the whole fleet: a standstill, a full Redis, a full queue, requests that no
-- worker may have. Each condition has a field in META while it lasts.
--
-- step: unmet: the lanes with waiting requests that no living worker may serve; nil if there are none
local conditions = {}
-- There must be room for this many milliseconds before a condition ends. Otherwise events could alternate quickly.
local QUIET = 5000
-- The interval, in milliseconds, at which META notes that a condition lasts, or that the crawl goes on.
local MOMENT = 1000
-- For how many milliseconds a worker that offers what is needed may still be starting.
local STARTING = 10000
-- The share of FRONTIER_MAX_WAITING below which there is room again.
local ROOM = 0.9

-- field: of META, the last time of the condition; is_now: whether it holds now; may_end: if not, whether it may end;
-- begins, ends: types of events
local function look(step, field, is_now, may_end, begins, ends, details)
  local last = number_of(step.meta[field], nil)
  if is_now then
    if not last then events.tell(begins, nil, details) end
    if not last or step.now - last >= MOMENT then redis.call('HSET', META, field, step.now) end
  elseif last and may_end and step.now - last >= QUIET then
    redis.call('HDEL', META, field)
    events.tell(ends, nil)
  end
end

-- -> whether the crawl has requests to do, and neither politeness nor an order holds them back
-- sleeps: whether all waiting requests must wait for the times of their slots
local function is_due(step, leased, sleeps)
  if step.order ~= '' or export_notes.on or sleeps then return false end
  return step.waiting > 0 or leased > 0
end

local function look_for_standstill(step, leased, sleeps)
  local since, goes_on = number_of(step.meta.going_since, nil), header.pages > 0 or not is_due(step, leased, sleeps)
  if not since and not step.before.over then
    -- Somebody has deleted all keys, or this crawl was begun by an older version. But a worker that missed the end of
    -- its crawl begins another one only when it finds work: see exchange/make_leases.lua.
    redis.call('HSETNX', META, 'began', step.now)
  end
  if not since or goes_on and step.now - since >= MOMENT then redis.call('HSET', META, 'going_since', step.now) end
  if goes_on and step.meta.stalled then
    redis.call('HDEL', META, 'stalled')
    events.tell('crawl_going_on', nil)
  elseif not goes_on and not step.meta.stalled and since and header.stall_ms and step.now - since > header.stall_ms then
    redis.call('HSET', META, 'stalled', step.now)
    events.tell('crawl_stalled', nil, {seconds = math.floor(header.stall_ms / 1000), waiting = step.waiting})
  end
end

-- META's field unmet: for each lane that no living worker may serve, since when (milliseconds), whether there was an event, and
-- the lane.
local function look_for_unmet_needs(step)
  local known, lasting, unmet = {}, {}, {}
  for since, was_noted, lane in string.gmatch(step.meta.unmet or '', '(%d+) ([01]) (%S+)') do
    known[lane] = {tonumber(since), was_noted == '1'}
  end
  for _, lane in ipairs(slots.has_lanes and lanes.unmet() or {}) do
    local since, was_noted = unpack(known[lane] or {step.now, false})
    known[lane] = nil
    local is_noted = was_noted or step.now - since >= math.min(header.lease_ms, STARTING)
    if is_noted and not was_noted then events.tell('needs_unmet', nil, {needs = lane}) end
    if is_noted then unmet[#unmet + 1] = lane end
    lasting[#lasting + 1] = whole(since) .. (is_noted and ' 1 ' or ' 0 ') .. lane
  end
  for lane, its in pairs(known) do
    if its[2] then events.tell('needs_met', nil, {needs = lane}) end
  end
  local text = table.concat(lasting, ' ')
  if text == '' then redis.call('HDEL', META, 'unmet') elseif text ~= step.meta.unmet then redis.call('HSET', META, 'unmet', text) end
  step.unmet = #unmet > 0 and unmet or nil
end

function conditions.note(step, leased, sleeps)
  local has_no_memory = step.full_memory or step.full == 'memory'
  if has_no_memory or step.meta.no_memory then
    look(step, 'no_memory', has_no_memory, true, 'redis_full', 'redis_has_room')
  end
  local has_no_room = step.full == 'bound' or step.full == 'exceeded' or step.dropped > 0
  if has_no_room or step.meta.no_room then
    local may_end = step.waiting <= ROOM * (header.max_waiting or 0) or not header.max_waiting
    look(step, 'no_room', has_no_room, may_end, 'queue_full', 'queue_has_room', {max_waiting = header.max_waiting})
  end
  look_for_standstill(step, leased, sleeps)
  if slots.has_lanes or step.meta.unmet then look_for_unmet_needs(step) end
end

return conditions
