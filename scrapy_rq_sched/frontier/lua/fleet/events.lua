-- Needs: keys, number_of
-- Record the events of a fleet in the step in which they happen: so each change is recorded once, and in order. The
-- stream EVENTS keeps them; the channel of the same name publishes them at once.
local events = {}
-- The number of events kept if no worker has set another; for how many seconds after the last event; and how many
-- characters of another program's text an event quotes.
local KEPT, FOR, LONGEST = 10000, 30 * 86400, 1000

-- -> the text, cut to *most* bytes without cutting a character in half
function events.cut(text, most)
  if #text <= most then return text end
  return (string.gsub(string.sub(text, 1, most), '[\192-\255][\128-\191]*$', ''))
end

-- -> the number of the next event: one more than that of the last one, or 1. Who reads the events sees from the numbers
-- whether some are missing, because the stream has lost its oldest ones.
local function next_number()
  local last = redis.pcall('XREVRANGE', EVENTS, '+', '-', 'COUNT', 1)
  local fields = not has_failed(last) and last[1] and last[1][2] or {}
  -- Quotes in texts are escaped, so this can only be the field.
  return number_of(string.match(fields[2] or '', '"number":(%d+)'), 0) + 1
end

-- Record an event. worker: the worker that it concerns, or nil; details: further fields, or nil
function events.tell(type, worker, details)
  local known = redis.call('HMGET', META, 'max_events', 'spider')
  local most = number_of(known[1], KEPT)
  if most == 0 then return end
  local event = {v = 1, type = type, time = server_time() / 1000, spider = known[2] or nil, worker = worker,
    number = next_number()}
  for name, value in pairs(details or {}) do
    event[name] = _G.type(value) == 'string' and events.cut(value, LONGEST) or value
  end
  -- The key may have another type, or the user may lack the rights. Events are optional, so the crawl goes on.
  local id = redis.pcall('XADD', EVENTS, 'MAXLEN', '~', most, '*', 'event', cjson.encode(event))
  if not has_failed(id) then
    event.id = id
    redis.call('EXPIRE', EVENTS, FOR)
  end
  redis.pcall('PUBLISH', EVENTS, cjson.encode(event))
end

-- Record that a worker is gone, as 'worker_left' or 'worker_lost', unless that was recorded before.
function events.tell_gone(worker, type)
  local known = redis.pcall('HMGET', WORKER .. worker, 'left', 'reclaimed')
  if has_failed(known) or not (known[1] or known[2]) then events.tell(type, worker) end
end

return events -- seldom used
