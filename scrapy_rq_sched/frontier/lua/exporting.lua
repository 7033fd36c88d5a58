-- Needs: keys
-- Whoever exports the frontier while a crawl runs reads what waits and what is held in many steps. What goes from
-- one to the other meanwhile it may not meet in either: so what anybody is through with is noted for him.
local exporting = {}

function exporting.note(values, now)
  if exporting.on == nil then exporting.on = (tonumber(redis.call('HGET', META, 'exporting')) or 0) > now end
  if not exporting.on then return end
  in_chunks(values, function(...) redis.call('RPUSH', EXPORTED, ...) end)
  redis.call('PEXPIRE', EXPORTED, 3600000)
end

return exporting
