-- Needs: keys, number_of
-- Lanes: waiting requests that only some workers may have, because they need what not every worker offers (meta["needs"] and
-- FRONTIER_OFFERS). So no worker looks in vain at requests that it may not have, however many they are.
--
-- A lane is named by its needs, in their order, with '|' between them; no name of a need or slot has a '|' (see
-- codec/needs.py). A place is where a request waits: '<slot>', or '<slot>|<lane>'. Each place has its own queue, but the
-- limits are those of the slot: its places share its turns.
-- Each place is in SLOTS, the index. There, the score of a place in a lane is inf, so that it has no turn; its turn is its
-- score in LANE..lane, the index of the lane. META's field lanes has the lanes with waiting requests, with spaces between them.
-- OFFERS: what workers offer, each as the name of a lane, by the server's time (milliseconds) until which at least one worker
-- that offers this counts as alive.
local lanes = {}
-- How long OFFERS is kept after a worker's last exchange, in milliseconds.
local OFFERS_KEPT = 86400000
-- The lanes, once they were read, and as a set; and what living workers offer.
local list, has, living
at_begin(function() list, has, living = nil, nil, nil end)

-- Tell this module META's field lanes.
function lanes.know(text)
  list, has = {}, {}
  for lane in string.gmatch(type(text) == 'string' and text or '', '%S+') do
    list[#list + 1], has[lane] = lane, true
  end
end

-- -> the list of all lanes
function lanes.all()
  if not list then lanes.know(redis.call('HGET', META, 'lanes')) end
  return list
end

-- -> the slot and the lane of a place; no lane if it has none
function lanes.split(place)
  local slot, lane = string.match(place, '^([^|]*)|(.*)$')
  return slot or place, lane
end

-- Add a lane to those that there are.
function lanes.add(lane)
  lanes.all()
  if has[lane] then return end
  list[#list + 1], has[lane] = lane, true
  redis.call('HSET', META, 'lanes', table.concat(list, ' '))
end

-- Use a command on a sorted set, OFFERS or the index of a lane. Another program may have stored a value of another type
-- there: it is deleted, and the index is made anew of the places in SLOTS.
local function on_set(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if not has_failed(reply) then return reply end
  redis.call('UNLINK', key)
  for _, place in ipairs(key ~= OFFERS and redis.call('ZRANGEBYSCORE', SLOTS, 'inf', 'inf') or {}) do
    local _, lane = lanes.split(place)
    if lane and LANE .. lane == key then redis.call('ZADD', key, exact_time(), place) end
  end
  return redis.call(command, key, ...)
end

-- -> {place, score, …}: at most *n* places of the lane with this *key*, with scores from *first* to *last*
function lanes.between(key, first, last, n)
  return on_set('ZRANGEBYSCORE', key, first, last, 'WITHSCORES', 'LIMIT', '0', n)
end

-- -> the score of a place in its lane; 0 if it has none
local function score_of(lane, place)
  return number_of(on_set('ZSCORE', LANE .. lane, place), 0)
end

-- Enter places into the index of their lane, and into SLOTS. first: the first score that is a time; score: returns a score.
-- -> the names that are in no lane; and those that are new in SLOTS
function lanes.enter(names, first, score)
  local others, added = {}, {}
  for _, place in ipairs(names) do
    local _, lane = lanes.split(place)
    if not lane then
      others[#others + 1] = place
    else
      lanes.add(lane)
      if redis.call('ZADD', SLOTS, 'inf', place) == 1 then added[#added + 1] = place end
      if score_of(lane, place) < first then on_set('ZADD', LANE .. lane, score(), place) end
    end
  end
  return others, added
end

-- Set the turn of a place in its lane.
function lanes.set(place, score)
  local _, lane = lanes.split(place)
  on_set('ZADD', LANE .. lane, score, place)
end

-- Move the turns of a slot's places in lanes forward to *score*, if they are later. A place that is looked at too soon gets a
-- later turn then.
function lanes.set_slot(slot, score)
  for _, lane in ipairs(lanes.all()) do
    on_set('ZADD', LANE .. lane, 'XX', 'LT', score, slot .. '|' .. lane)
  end
end

-- Remove a place from its lane.
function lanes.remove(place)
  local _, lane = lanes.split(place)
  if lane then on_set('ZREM', LANE .. lane, place) end
end

-- -> whether *offers*, as the name of a lane, have all needs of *lane*
function lanes.covers(offers, lane)
  for need in string.gmatch(lane, '[^|]+') do
    if not string.find('|' .. offers .. '|', '|' .. need .. '|', 1, true) then return false end
  end
  return true
end

-- -> whether a worker with these *offers* may have requests of a place
function lanes.are_offered(place, offers)
  local _, lane = lanes.split(place)
  return lanes.covers(offers or '', lane or '')
end

-- -> the keys of the lanes that a worker with these *offers* may serve
function lanes.keys(offers)
  local keys = {}
  for _, lane in ipairs(offers and lanes.all() or {}) do
    if lanes.covers(offers, lane) then keys[#keys + 1] = LANE .. lane end
  end
  return keys
end

-- -> the places of a slot with waiting requests that are in no lane, or in the lanes with these *keys*
function lanes.places(slot, keys)
  local found = {redis.call('ZSCORE', SLOTS, slot) and slot or nil}
  for _, key in ipairs(keys) do
    local lane = string.sub(key, #LANE + 1)
    if score_of(lane, slot .. '|' .. lane) ~= 0 then found[#found + 1] = slot .. '|' .. lane end
  end
  return found
end

-- -> what *worker* offers
function lanes.offers_of(worker)
  local found = redis.pcall('HGET', WORKER .. worker, 'offers')
  return type(found) == 'string' and found or ''
end

-- Note what a worker offers, as long as it counts as alive: also in its own key.
function lanes.offer(worker, offers, deadline)
  if offers == '' then return end
  redis.call('HSET', WORKER .. worker, 'offers', offers)
  lanes.renew(offers, deadline)
end

-- Note that a worker that offers this is alive until *deadline*.
function lanes.renew(offers, deadline)
  on_set('ZADD', OFFERS, 'GT', deadline, offers)
  redis.call('PEXPIRE', OFFERS, OFFERS_KEPT)
end

-- -> whether a living worker may serve a lane
local function is_met(lane)
  living = living or on_set('ZRANGEBYSCORE', OFFERS, '(' .. server_time(), 'inf')
  for _, offers in ipairs(living) do
    if lanes.covers(offers, lane) then return true end
  end
  return false
end

-- -> whether requests of a slot wait in a lane that a living worker may serve
function lanes.has(slot)
  for _, lane in ipairs(lanes.all()) do
    if score_of(lane, slot .. '|' .. lane) ~= 0 and is_met(lane) then return true end
  end
  return false
end

-- Forget lanes without waiting requests. -> the others that no living worker may serve
function lanes.unmet()
  local found, kept, count = {}, {}, 0
  for _, lane in ipairs(lanes.all()) do count = count + on_set('ZCARD', LANE .. lane) end
  -- Somebody has deleted the index of a lane.
  if redis.call('ZCOUNT', SLOTS, 'inf', 'inf') > count then
    lanes.enter(redis.call('ZRANGEBYSCORE', SLOTS, 'inf', 'inf'), 1, exact_time)
  end
  for _, lane in ipairs(lanes.all()) do
    if redis.call('EXISTS', LANE .. lane) == 1 then
      kept[#kept + 1], found[#found + 1] = lane, not is_met(lane) and lane or nil
    end
  end
  -- Each lane costs time with each turn of a slot. The field stays, even if it is empty: leases may be of lanes.
  if #kept < #list then
    local text = table.concat(kept, ' ')
    redis.call('HSET', META, 'lanes', text)
    lanes.know(text)
  end
  return found
end

-- Delete the indexes of all lanes, because all waiting requests are deleted.
function lanes.clear()
  for _, lane in ipairs(lanes.all()) do redis.call('UNLINK', LANE .. lane) end
  redis.call('UNLINK', OFFERS)
  redis.call('HDEL', META, 'lanes')
  list, has = nil, nil
end

return lanes -- seldom used
