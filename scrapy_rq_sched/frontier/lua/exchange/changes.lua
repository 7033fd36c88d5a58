-- Needs: keys, events, exporting, exchange/said
-- What this exchange finds to have changed for the whole fleet: that it stands still or has no room, and that this is over.
-- META has each of these as long as it lasts.
local changes = {}
-- Milliseconds in which there has to have been room before it is told: else there would be two events a moment.
local QUIET = 5000
-- Milliseconds between two notes that a crawl goes on.
local MOMENT = 1000
-- The share of FRONTIER_MAX_WAITING below which there is room again.
local ROOM = 0.9

-- field: of META, since when; is_now: whether it is so; may_end: whether it is over, if it is not
local function look(turn, field, is_now, may_end, begins, ends, details)
  local last = tonumber(turn.meta[field] or '')
  if is_now then
    if not last then events.tell(begins, nil, details) end
    if not last or turn.now - last >= MOMENT then redis.call('HSET', META, field, turn.now) end
  elseif last and may_end and turn.now - last >= QUIET then
    redis.call('HDEL', META, field)
    events.tell(ends, nil)
  end
end

-- Has the crawl something to do that nothing holds back?
-- next_turn: when the next waiting request may be begun, or nil
local function is_due(turn, leased, next_turn)
  if turn.told ~= '' or exporting.on or next_turn and next_turn > turn.now then return false end
  return turn.waiting > 0 or leased > 0
end

local function look_for_standstill(turn, leased, next_turn)
  local since, goes_on = tonumber(turn.meta.going_since or ''), said.pages > 0 or not is_due(turn, leased, next_turn)
  if not since then
    -- Somebody has deleted all keys, or this crawl was begun by an older version.
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
