-- Needs: keys, number_of
-- Decide which worker sends the events to the webhook, and note the progress.
--
-- ARGV  worker, for how long it may send without asking again (ms; 0: it stops sending), id of the last event that it
--       has sent (empty: none), the number of that event (-1: unknown)
-- Reply {whether this worker sends (0/1), the id of the last event that was sent, its number}
local worker, lease_ms, sent, its_number = argument(), number(), argument(), number()
-- If no event was ever sent, begin with events of this last minute, such as the start of the crawl. In milliseconds.
local AT_FIRST = 60000
-- The progress is kept as long as the events, in seconds.
local KEPT = 30 * 86400
local function comes_before(id, other)
  local milliseconds, n = string.match(id, '^(%d+)-(%d+)$')
  local others, others_n = string.match(other, '^(%d+)-(%d+)$')
  if not milliseconds or milliseconds == others then return (tonumber(n) or 0) < (tonumber(others_n) or 0) end
  return tonumber(milliseconds) < (tonumber(others) or 0)
end

local function number_in(event)
  -- Quotes in texts are escaped, so this can only be the field.
  return number_of(string.match(event[2][2] or '', '"number":(%d+)'), nil)
end

-- -> the number of the last event up to *id*, which the stream may have lost; -1: unknown
local function number_until(id)
  local after, last = redis.pcall('XRANGE', EVENTS, '(' .. id, '+', 'COUNT', 1), nil
  if has_failed(after) then return -1 end
  if after[1] then return (number_in(after[1]) or 0) - 1 end
  last = redis.pcall('XREVRANGE', EVENTS, '+', '-', 'COUNT', 1)
  if has_failed(last) then return -1 end
  return last[1] and (number_in(last[1]) or -1) or 0
end

local problem = wrong_type({{WEBHOOK, 'hash'}})
if problem then return wrong_type_error(problem) end
despite_full_memory()
local now, known = server_time(), redis.call('HMGET', WEBHOOK, 'worker', 'until', 'sent', 'number')
if known[1] and known[1] ~= worker and (tonumber(known[2]) or 0) > now then return {0, known[3] or '0-0', -1} end
-- If another worker has sent later events meanwhile, continue after them. But while this worker is the one that sends,
-- its own progress counts: Redis may have come back with older data.
local is_its_own = known[1] == worker and (tonumber(known[2]) or 0) > now
if sent ~= '' and known[3] and not is_its_own and comes_before(sent, known[3]) then sent = '' end
if sent == '' then
  -- It is valid only together with the id: a worker of an older version notes the id alone.
  local id, count = string.match(known[4] or '', '^(%S+) (%-?%d+)$')
  its_number = id == known[3] and number_of(count, -1) or -1
end
if sent == '' and known[3] then
  sent = known[3]
elseif sent == '' then
  sent = math.max(0, now - AT_FIRST) .. '-0'
  its_number = number_until(sent)
end
redis.call('HSET', WEBHOOK, 'worker', worker, 'until', now + lease_ms, 'sent', sent, 'number', sent .. ' ' .. string.format('%.0f', its_number))
redis.call('EXPIRE', WEBHOOK, KEPT)
return {1, sent, its_number}
