-- Needs: keys, fleet/events
-- Give an order to all workers. Each one gets it with its next exchange.
--
-- ARGV  'paused', 'draining', '' (resume), or 'stop' (only for the workers that are alive now)
-- Reply the number of workers that are alive
local order, now = argument(), server_time()
local problem = wrong_type(types())
if problem then return wrong_type_error(problem) end
despite_full_memory()
if order == 'stop' then
  redis.call('HSET', META, 'stop', exact_time())
  redis.call('HDEL', META, 'stop_reason')
  events.tell('stopped', nil)
elseif order == '' then
  -- A resume does not take back an order to stop: workers that have it are already closing.
  if redis.call('HDEL', META, 'state', 'state_since') > 0 then
    redis.call('HSET', META, 'going_since', now, 'resumed', now)
    events.tell('resumed', nil)
  end
elseif redis.call('HGET', META, 'state') ~= order then
  redis.call('HSET', META, 'state', order, 'state_since', now)
  events.tell(order, nil)
end
return redis.call('ZCOUNT', WORKERS, '(' .. now, '+inf')
