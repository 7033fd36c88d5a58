-- Needs: keys
-- Have what workers are through with noted for an export, from now on; or have it noted for longer.
--
-- ARGV  how ('look': change nothing, 'begin', 'renew'), token (digits, unlike those of any other export),
--       for how long (ms)
-- Reply {''}
--       {'gone'}: there is no frontier; {'converting', from}: see keys.py
--       {'exporting', for how long yet (ms)}: another export is under way
--       {'lapsed'}: for a while nothing was noted for this one
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
-- What an export that broke off has left.
if how == 'begin' and not own then redis.call('UNLINK', EXPORTED) end
redis.call('HSET', META, 'exporting', string.format('%.0f.%s', now + period, token))
redis.call('PEXPIRE', EXPORTED, 3600000)
return {''}
