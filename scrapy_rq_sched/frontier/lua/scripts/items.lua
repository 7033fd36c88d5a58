-- Needs: helpers
-- Append a batch of items to lists, only once: if the reply is lost, the worker sends the batch again.
--
-- KEYS  number of this worker's last batch, then the lists
-- ARGV  batch (its number), for how long it may be sent again (seconds),
--       then for each list: n, then n items
-- Reply whether the batch was new (0/1)
local LAST_BATCH = KEYS[1]
local batch, again = argument(), argument()
local types = {{LAST_BATCH, 'string'}}
for place = 2, #KEYS do types[place] = {KEYS[place], 'list'} end
local problem = wrong_type(types)
if problem then return wrong_type_error(problem) end
if (tonumber(redis.call('GET', LAST_BATCH)) or 0) >= tonumber(batch) then return 0 end
for place = 2, #KEYS do
  local n = number()
  local first = arguments(n)
  for from = first, first + n - 1, 1000 do
    redis.call('RPUSH', KEYS[place], unpack(ARGV, from, math.min(from + 999, first + n - 1)))
  end
end
-- Only now: if Redis is out of memory, it refuses the first push, and then nothing may be noted.
redis.call('SET', LAST_BATCH, batch, 'EX', again)
return 1
