-- Needs: keys
-- End an export, unless there are more notes to read.
--
-- ARGV  token, how many notes were read; -1: end it in any case
-- Reply {'', the counter}; {'more'}: there are more notes; {'lapsed'}: the period had ended, so leases may be missing
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
