-- Needs: keys
-- Begin a conversion of one queue, or go on with one that broke off: of the requests of one slot after the other.
--
-- ARGV  from, to: the serializers; whether the queue is a list (0/1)
-- Reply {'', left} left: requests that are still to be converted, of a list
--       {'alive', n}: n workers are at it; {'held'}: dead ones hold requests; {'type', what it is}
--       {'other', from, to}: another conversion broke off
--       {'importing'}, {'exporting'}: the frontier is
local from, to, is_list = argument(), argument(), argument()
local kind = redis.call('TYPE', REQUESTS)['ok']
if kind ~= 'none' and kind ~= (is_list == '1' and 'list' or 'zset') then return {'type', kind} end
local alive = redis.call('ZCOUNT', WORKERS, '(' .. server_time(), '+inf')
if alive > 0 then return {'alive', alive} end
for _, worker in ipairs(redis.call('ZRANGE', WORKERS, 0, -1)) do
  if redis.call('EXISTS', LEASES .. worker) == 1 then return {'held'} end
end
if redis.call('EXISTS', DELAYED) == 1 then return {'held'} end
if (tonumber(redis.call('HGET', META, 'exporting')) or 0) > server_time() then return {'exporting'} end
local before = redis.call('HMGET', CONVERTING, 'from', 'to')
if before[1] == 'import' then return {'importing'} end
if before[1] and (before[1] ~= from or before[2] ~= to) then return {'other', before[1], before[2]} end
local length = is_list == '1' and redis.call('LLEN', REQUESTS) or 0
-- Another has been at a list meanwhile: then it is gone through from its end once more. The requests stand in
-- another order after that, and none is passed over.
local was = redis.call('HMGET', CONVERTING, 'length', 'queue')
if tonumber(was[1]) ~= length or was[2] ~= REQUESTS then
  redis.call('HSET', CONVERTING, 'from', from, 'to', to, 'left', length, 'length', length, 'queue', REQUESTS)
end
return {'', tonumber(redis.call('HGET', CONVERTING, 'left'))}
