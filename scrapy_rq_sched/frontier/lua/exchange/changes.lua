-- Needs: events, exchange/said
-- What this exchange finds to have changed for the whole fleet: that it stands still or has no room, and that this is over.
-- META has each of these as long as it lasts.
local changes = {}
-- Milliseconds in which there has to have been room before it is told: else there would be two events a moment.
local QUIET = 5000
-- The share of FRONTIER_MAX_WAITING below which there is room again.
local ROOM = 0.9

-- field: of META, since when; is_now: whether it is so; may_end: whether it is over, if it is not
local function look(turn, field, is_now, may_end, begins, ends, details)
  local last = tonumber(turn.meta[field] or '')
  if is_now then
    if not last then events.tell(begins, nil, details) end
    if not last or turn.now - last >= QUIET / 5 then redis.call('HSET', META, field, turn.now) end
  elseif last and may_end and turn.now - last >= QUIET then
    redis.call('HDEL', META, field)
    events.tell(ends, nil)
  end
end

-- next_turn: when the next waiting request may be begun, or nil
local function stands_still(turn, leased, next_turn)
  if not said.stall_ms or turn.told ~= '' or turn.over or said.pages > 0 then return false end
  if next_turn and next_turn > turn.now then return false end
  if turn.waiting == 0 and leased <= 0 then return false end
  local last_page = 1000 * (tonumber(string.match(turn.pages or '', '^(%d+) ')) or 0)
  -- In which it had to do nothing does not count.
  local since = math.max(last_page, tonumber(turn.meta.going_since or '') or turn.now)
  return turn.now - since > said.stall_ms
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
  if turn.meta.stalled then
    if said.pages > 0 or turn.waiting == 0 and leased == 0 then
      redis.call('HDEL', META, 'stalled')
      events.tell('crawl_going_on', nil)
    end
  elseif stands_still(turn, leased, next_turn) then
    redis.call('HSET', META, 'stalled', turn.now)
    events.tell('crawl_stalled', nil, {seconds = math.floor(said.stall_ms / 1000), waiting = turn.waiting})
  end
end

return changes -- seldom used
