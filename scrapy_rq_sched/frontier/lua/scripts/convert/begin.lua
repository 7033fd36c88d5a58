-- Needs: keys
-- Begin to convert one queue to another serializer, or resume an interrupted conversion. Each slot has its own queue.
--
-- ARGV  from, to: the serializers; whether the queue is a list (0/1)
-- Reply {'', left} left: for a list, the number of requests that are not yet converted
--       {'alive', n}: n workers are alive; {'held'}: dead workers hold requests; {'type', the queue's type}
--       {'other', from, to}: another conversion was interrupted
--       {'importing'}, {'exporting'}: the frontier is being imported or exported
local from, to, is_list = argument(), argument(), argument()
local kind = redis.call('TYPE', REQUESTS)['ok']
if kind ~= 'none' and kind ~= (is_list == '1' and 'list' or 'zset') then return {'type', kind} end
local alive = redis.call('ZCOUNT', WORKERS, '(' .. server_time(), '+inf')
if alive > 0 then return {'alive', alive} end
for _, worker in ipairs(redis.call('ZRANGE', WORKERS, 0, -1)) do
  if redis.call('EXISTS', LEASES .. worker) == 1 then return {'held'} end
end
if redis.call('EXISTS', DELAYED, FOLLOWERS) > 0 then return {'held'} end
if (tonumber(redis.call('HGET', META, 'exporting')) or 0) > server_time() then return {'exporting'} end
local before = redis.call('HMGET', CONVERTING, 'from', 'to')
if before[1] == 'import' then return {'importing'} end
if before[1] and (before[1] ~= from or before[2] ~= to) then return {'other', before[1], before[2]} end
local length = is_list == '1' and redis.call('LLEN', REQUESTS) or 0
-- If something else has changed the list meanwhile, it is converted again from its end. Then the requests are in
-- another order afterwards, but none is skipped.
local was = redis.call('HMGET', CONVERTING, 'length', 'queue')
if tonumber(was[1]) ~= length or was[2] ~= REQUESTS then
  redis.call('HSET', CONVERTING, 'from', from, 'to', to, 'left', length, 'length', length, 'queue', REQUESTS)
end
return {'', tonumber(redis.call('HGET', CONVERTING, 'left'))}
