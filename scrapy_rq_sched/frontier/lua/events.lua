-- Needs: keys
-- Tell what happens to a fleet, in the step in which it happens: so each change is told once, and in order. EVENTS keeps
-- it for whoever reads later; whoever listens to the channel of that name hears it at once.
local events = {}
-- So many are kept if no worker says otherwise, for so many seconds after the last; what somebody else wrote, an event
-- quotes so far.
local KEPT, FOR, LONGEST = 10000, 30 * 86400, 1000

-- -> the beginning of a text that is too long, without half a character
function events.cut(text, most)
  if #text <= most then return text end
  return (string.gsub(string.sub(text, 1, most), '[\192-\255][\128-\191]*$', ''))
end

-- type, worker: whom it concerns, or nil; details: what else there is to say, or nil
function events.tell(type, worker, details)
  local known = redis.call('HMGET', META, 'max_events', 'spider')
  local most = tonumber(known[1] or '') or KEPT
  if most == 0 then return end
  local event = {v = 1, type = type, time = server_time() / 1000, spider = known[2] or nil, worker = worker}
  for name, value in pairs(details or {}) do
    event[name] = _G.type(value) == 'string' and events.cut(value, LONGEST) or value
  end
  -- What somebody has put in its place stays there, and a user may lack the rights: no crawl stops for want of events.
  local id = redis.pcall('XADD', EVENTS, 'MAXLEN', '~', most, '*', 'event', cjson.encode(event))
  if not has_failed(id) then
    event.id = id
    redis.call('EXPIRE', EVENTS, FOR)
  end
  redis.pcall('PUBLISH', EVENTS, cjson.encode(event))
end

-- This worker is at it no more: 'worker_left' or 'worker_lost', if nothing of the kind was told of it.
function events.tell_gone(worker, type)
  local known = redis.pcall('HMGET', WORKER .. worker, 'left', 'reclaimed')
  if has_failed(known) or not (known[1] or known[2]) then events.tell(type, worker) end
end

return events -- seldom used
