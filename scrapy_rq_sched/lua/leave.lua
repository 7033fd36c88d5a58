-- A worker leaves, after the exchange in which it gave back what it held.
--
-- ARGV  worker, finished (0/1: it closes because the fleet is finished), persist (0/1),
--       how long a late worker may still come (seconds), what the frontier's keys begin with
-- Reply {cleared (0/1), leases it left behind}
--
-- Only the last worker of a finished fleet clears anything; what is left then has a time to live.
local worker, finished, persist, grace, frontier = argument(), argument(), argument(), number(), argument()
local now = server_time()
despite_full_memory()
local left = redis.call('HLEN', LEASES .. worker)
if left > 0 then
  -- It could not say what became of these: they return as those of the dead do, but at once.
  redis.call('ZADD', WORKERS, now, worker)
  redis.call('HSET', WORKER .. worker, 'left', 1)
  redis.call('PEXPIRE', WORKER .. worker, 86400000)
else
  redis.call('ZREM', WORKERS, worker)
  redis.call('DEL', WORKER .. worker)
end

local leased, busy = fleet()
local rest = queue_length() + redis.call('ZCARD', DELAYED) + seed_count()
if finished ~= '1' or leased + busy + rest > 0 then return {0, left} end
redis.call('SET', FINISHED, now, 'EX', grace)
redis.call('EXPIRE', STARTED, grace)
if redis.call('ZCOUNT', WORKERS, '(' .. now, '+inf') > 0 then return {0, left} end
redis.call('DEL', WORKERS, COUNTER, HISTORY, DELAYED, PAGES, EXPORTED)
-- What the workers of this crawl were told is not for those of the next.
redis.call('HDEL', META, 'state', 'state_since', 'stop', 'exporting')
if persist == '1' then return {0, left} end
redis.call('UNLINK', REQUESTS, META)
seen_clear(frontier)
return {1, left}
