-- Needs: keys, fleet/events
-- Change the list of hosts and patterns of URLs of which no worker begins a request.
--
-- ARGV  1: deny, 0: allow again; a host, or a pattern of URLs
-- Reply 1 if the list has changed, else 0
local denies, text = argument() == '1', argument()
local problem = wrong_type({{META, 'hash'}, {DENIED, 'hash'}})
if problem then return wrong_type_error(problem) end
despite_full_memory()
local changed = denies and redis.call('HSETNX', DENIED, text, server_time()) or not denies and redis.call('HDEL', DENIED, text)
if changed == 0 then return 0 end
-- Without META there is no worker to tell.
if redis.call('EXISTS', META) == 1 then redis.call('HSET', META, 'denied', exact_time()) end
events.tell(denies and 'url_denied' or 'url_allowed', nil, {pattern = text})
return 1
