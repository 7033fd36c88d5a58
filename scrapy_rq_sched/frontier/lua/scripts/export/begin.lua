-- Needs: keys
-- Begin or renew the period in which workers note their finished leases for an export.
--
-- ARGV  how ('look': change nothing, 'begin', 'renew'), token (digits that differ from every other export's),
--       length of the period (ms)
-- Reply {''}
--       {'gone'}: there is no frontier; {'converting', from}: it is being converted or imported
--       {'exporting', remaining time (ms)}: another export is under way
--       {'lapsed'}: the period had ended, so leases may be missing
local how, token, period = argument(), argument(), number()
local problem = wrong_type(types())
if problem then return wrong_type_error(problem) end
local now = server_time()
if redis.call('HEXISTS', META, 'epoch') == 0 then return {'gone'} end
local exporting = redis.call('HGET', META, 'exporting') or '0'
local left = (tonumber(exporting) or 0) - now
local own = string.match(exporting, '%.(%d+)$') == token
if how == 'renew' and not (own and left > 0) then return {'lapsed'} end
if how ~= 'renew' then
  local from = redis.call('HGET', CONVERTING, 'from')
  if from then return {'converting', from} end
  if left > 0 and not own then return {'exporting', math.floor(left)} end
end
if how == 'look' then return {''} end
despite_full_memory()
-- Delete the notes of an interrupted export.
if how == 'begin' and not own then redis.call('UNLINK', EXPORTED) end
redis.call('HSET', META, 'exporting', string.format('%.0f.%s', now + period, token))
redis.call('PEXPIRE', EXPORTED, 3600000)
return {''}
