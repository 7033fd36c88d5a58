-- Needs: keys, events
-- What all workers are told, each by its next exchange.
--
-- ARGV  'paused', 'draining', '' (go on), or 'stop': those that are alive now
-- Reply how many are alive
local what, now = argument(), server_time()
local problem = wrong_type(types())
if problem then return wrong_type_error(problem) end
despite_full_memory()
if what == 'stop' then
  redis.call('HSET', META, 'stop', exact_time())
  redis.call('HDEL', META, 'stop_reason')
  events.tell('stopped', nil)
elseif what == '' then
  -- Who has been told to stop and is on its way out does not come back.
  if redis.call('HDEL', META, 'state', 'state_since') > 0 then
    redis.call('HSET', META, 'going_since', now)
    events.tell('resumed', nil)
  end
elseif redis.call('HGET', META, 'state') ~= what then
  redis.call('HSET', META, 'state', what, 'state_since', now)
  events.tell(what, nil)
end
return redis.call('ZCOUNT', WORKERS, '(' .. now, '+inf')
