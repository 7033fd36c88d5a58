-- Needs: keys
-- The supervisors' runs that take part in this crawl: META's field 'runs' has their ids.
local runs = {}
-- The number of runs that are kept, the latest ones.
local MOST = 100

local function known()
  return redis.call('HGET', META, 'runs') or ''
end

-- -> whether a worker of this run has joined this crawl before
function runs.has(run)
  return run ~= '' and string.find(' ' .. known() .. ' ', ' ' .. run .. ' ', 1, true) ~= nil
end

function runs.add(run)
  if run == '' or runs.has(run) then return end
  local ids = {}
  for id in string.gmatch(known() .. ' ' .. run, '%S+') do ids[#ids + 1] = id end
  redis.call('HSET', META, 'runs', table.concat(ids, ' ', math.max(1, #ids - MOST + 1)))
end

return runs
