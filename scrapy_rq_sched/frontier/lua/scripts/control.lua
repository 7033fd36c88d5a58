-- Needs: keys, fleet/events
-- Give an order to all workers, or the order to stop to one. Each gets it with its next exchange.
--
-- ARGV  'paused', 'draining', '' (resume), or 'stop' (only for the workers that are alive now); the only worker to stop,
--       or none
-- Reply the number of workers that are alive; 1 or 0 for one worker
local order, only, now = argument(), argument(), server_time()
local problem = wrong_type(types())
if problem then return wrong_type_error(problem) end
despite_full_memory()
if only then
  local deadline = tonumber(redis.call('ZSCORE', WORKERS, only))
  if order ~= 'stop' or not deadline or deadline <= now then return 0 end
  -- Its key stays for a while after its death, and each worker has a name of its own.
  if redis.call('HSETNX', WORKER .. only, 'stop', whole(now)) == 1 then events.tell('worker_stopped', only) end
  return 1
end
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
