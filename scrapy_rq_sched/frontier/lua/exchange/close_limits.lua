-- Needs: keys, fleet/events, number_of, exchange/header
-- Close the whole fleet when it has reached a limit: FRONTIER_CLOSE_PAGECOUNT, _ITEMCOUNT, _ERRORCOUNT or _TIMEOUT. The
-- counts begin when the first of the running workers joins: see scripts/open.lua.
local close_limits = {}
-- If several limits are reached at once, the first one in this order is reported.
local COUNTS = {'pagecount', 'itemcount', 'errorcount'}

function close_limits.look(step)
  local most, counted = header.close, header.counted or {}
  if step.over then return end
  local run = redis.call('HMGET', META, 'run_pagecount', 'run_itemcount', 'run_errorcount', 'run_since')
  local reached
  for i, name in ipairs(COUNTS) do
    local count = number_of(run[i], 0)
    if counted[name] and not step.repeated then
      count = count + counted[name]
      redis.call('HSET', META, 'run_' .. name, string.format('%.0f', count))
    end
    if most[name] and count >= most[name] then reached = reached or name end
  end
  local since = number_of(run[4], nil)
  if not since then redis.call('HSET', META, 'run_since', step.now) end
  if most.timeout and since and step.now - since >= 1000 * most.timeout then reached = reached or 'timeout' end
  -- A worker that already has the order to stop is closing. A worker that joined after the order gets a new one.
  local joined, stop = tonumber(step.before.joined), tonumber(step.meta.stop)
  if reached and not (joined and stop and joined < stop) then
    step.meta.stop, step.meta.stop_reason = exact_time(), 'closespider_' .. reached
    redis.call('HSET', META, 'stop', step.meta.stop, 'stop_reason', step.meta.stop_reason)
    if not redis.call('HGET', META, 'run_reached') then
      redis.call('HSET', META, 'run_reached', reached)
      events.tell('limit_reached', nil, {limit = 'FRONTIER_CLOSE_' .. string.upper(reached)})
    end
  end
end

return close_limits -- seldom used
