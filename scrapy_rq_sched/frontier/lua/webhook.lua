-- Needs: keys
-- Who sends the events to the webhook, and how far that has got.
--
-- ARGV  worker, for how long it may send without asking again (ms; 0: it sends no more), id of the event that it has sent
--       last (empty: none)
-- Reply {whether this worker sends (0/1), the id of the last event that was sent}
local worker, lease_ms, sent = argument(), number(), argument()
-- From when on, if nothing was ever sent: what has happened just now, such as the start of the crawl, in milliseconds.
local AT_FIRST = 60000
-- It is remembered as long as the events are, in seconds.
local KEPT = 30 * 86400
local WEBHOOK = EVENTS .. ':webhook'
local function comes_before(id, other)
  local milliseconds, n = string.match(id, '^(%d+)-(%d+)$')
  local others, others_n = string.match(other, '^(%d+)-(%d+)$')
  if not milliseconds or milliseconds == others then return (tonumber(n) or 0) < (tonumber(others_n) or 0) end
  return tonumber(milliseconds) < (tonumber(others) or 0)
end
local problem = wrong_type({{WEBHOOK, 'hash'}})
if problem then return wrong_type_error(problem) end
despite_full_memory()
local now, known = server_time(), redis.call('HMGET', WEBHOOK, 'worker', 'until', 'sent')
if known[1] and known[1] ~= worker and (tonumber(known[2]) or 0) > now then return {0, known[3] or '0-0'} end
-- What another has sent meanwhile, this one does not take back; but Redis may have come back with older data.
local is_its_own = known[1] == worker and (tonumber(known[2]) or 0) > now
if sent ~= '' and known[3] and not is_its_own and comes_before(sent, known[3]) then sent = known[3] end
if sent == '' then sent = known[3] or math.max(0, now - AT_FIRST) .. '-0' end
redis.call('HSET', WEBHOOK, 'worker', worker, 'until', now + lease_ms, 'sent', sent)
redis.call('EXPIRE', WEBHOOK, KEPT)
return {1, sent}
