-- Needs: keys
-- End an export, unless there is more to read.
--
-- ARGV  token, how many of those noted were read; -1: whatever there is, it is not wanted
-- Reply {'', the counter}; {'more'}; {'lapsed'}: for a while nothing was noted
local token, read = argument(), number()
local exporting = redis.call('HGET', META, 'exporting') or '0'
if string.match(exporting, '%.(%d+)$') ~= token then return {'lapsed'} end
if read >= 0 then
  if tonumber(exporting) <= server_time() then return {'lapsed'} end
  if redis.call('LLEN', EXPORTED) ~= read then return {'more'} end
end
despite_full_memory()
redis.call('HDEL', META, 'exporting')
redis.call('UNLINK', EXPORTED)
return {'', redis.call('GET', COUNTER) or ''}
