-- Needs: keys, number_of
-- An export reads the waiting requests and the leases in many steps while the crawl runs. It could miss a request that
-- moves from one to the other meanwhile. So scripts note all leases that end, for the export to read.
local export_notes = {}
at_begin(function() export_notes.on = nil end)

function export_notes.note(values, now)
  if export_notes.on == nil then export_notes.on = number_of(redis.call('HGET', META, 'exporting'), 0) > now end
  if not export_notes.on then return end
  in_chunks(values, function(...) redis.call('RPUSH', EXPORTED, ...) end)
  redis.call('PEXPIRE', EXPORTED, 3600000)
end

return export_notes
