-- Needs: keys, events, exporting, number_of, exchange/said
-- Notice the begin and the end of conditions of the whole fleet: a standstill, a full Redis, a full queue. Each
-- condition has a field in META while it lasts.
local changes = {}
-- There must be room for this many milliseconds before a condition ends. Otherwise events could alternate quickly.
local QUIET = 5000
-- The interval, in milliseconds, at which META notes that a condition lasts, or that the crawl goes on.
local MOMENT = 1000
-- The share of FRONTIER_MAX_WAITING below which there is room again.
local ROOM = 0.9

-- field: of META, the last time of the condition; is_now: whether it holds now; may_end: if not, whether it may end;
-- begins, ends: types of events
local function look(turn, field, is_now, may_end, begins, ends, details)
  local last = number_of(turn.meta[field], nil)
  if is_now then
    if not last then events.tell(begins, nil, details) end
    if not last or turn.now - last >= MOMENT then redis.call('HSET', META, field, turn.now) end
  elseif last and may_end and turn.now - last >= QUIET then
    redis.call('HDEL', META, field)
    events.tell(ends, nil)
  end
end

-- -> whether the crawl has requests to do, and neither politeness nor an order holds them back
-- next_turn: when the next waiting request may begin, or nil
local function is_due(turn, leased, next_turn)
  if turn.told ~= '' or exporting.on or next_turn and next_turn > turn.now then return false end
  return turn.waiting > 0 or leased > 0
end

local function look_for_standstill(turn, leased, next_turn)
  local since, goes_on = number_of(turn.meta.going_since, nil), said.pages > 0 or not is_due(turn, leased, next_turn)
  if not since and not turn.before.over then
    -- Somebody has deleted all keys, or this crawl was begun by an older version. But a worker that missed the end of
    -- its crawl begins another one only when it finds work: see exchange/handing.lua.
    redis.call('HSETNX', META, 'began', turn.now)
  end
  if not since or goes_on and turn.now - since >= MOMENT then redis.call('HSET', META, 'going_since', turn.now) end
  if goes_on and turn.meta.stalled then
    redis.call('HDEL', META, 'stalled')
    events.tell('crawl_going_on', nil)
  elseif not goes_on and not turn.meta.stalled and since and said.stall_ms and turn.now - since > said.stall_ms then
    redis.call('HSET', META, 'stalled', turn.now)
    events.tell('crawl_stalled', nil, {seconds = math.floor(said.stall_ms / 1000), waiting = turn.waiting})
  end
end

function changes.note(turn, leased, next_turn)
  local has_no_memory = turn.full_memory or turn.full == 'memory'
  if has_no_memory or turn.meta.no_memory then
    look(turn, 'no_memory', has_no_memory, true, 'redis_full', 'redis_has_room')
  end
  local has_no_room = turn.full == 'bound' or turn.full == 'exceeded' or turn.dropped > 0
  if has_no_room or turn.meta.no_room then
    local may_end = turn.waiting <= ROOM * (said.most_waiting or 0) or not said.most_waiting
    look(turn, 'no_room', has_no_room, may_end, 'queue_full', 'queue_has_room', {max_waiting = said.most_waiting})
  end
  look_for_standstill(turn, leased, next_turn)
end

return changes
