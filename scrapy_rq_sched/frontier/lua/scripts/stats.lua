-- Needs: helpers
-- Add a worker's statistics to those of its fleet, once, and return the sums.
--
-- KEYS  statistics, number of this worker's last batch
-- ARGV  look (0/1: change nothing), first (0/1: this worker has sent no batch yet), expire (0/1: the crawl is
--       finished), for how long the statistics of a finished crawl are kept (seconds), how long ago this worker was
--       started (ms), number of the batch, for how long it may be sent again (seconds), clear (0/1: delete all
--       statistics first), n, then n times: how, field, value, start
-- How   'set', 'add' (to *start*, if the field is missing), 'max', 'min'
-- Reply field, value, field, value, …
local STATS, LAST_BATCH = KEYS[1], KEYS[2]
local look, first, expire = argument(), argument(), argument()
local kept, age = number(), number()
local batch, again, clear = argument(), argument(), argument()
local problem = wrong_type({{STATS, 'hash'}, {LAST_BATCH, 'string'}})
if problem then return wrong_type_error(problem) end

-- Only the statistics of a finished crawl have a time to live. If that crawl finished before this worker was started,
-- they are an older crawl's.
local left = redis.call('PTTL', STATS)
local is_old = left >= 0 and kept * 1000 - left > age
if look == '1' then
  return is_old and {} or redis.call('HGETALL', STATS)
end
if first == '1' and is_old then redis.call('DEL', STATS) end

local function add(field, by, start)
  redis.call('HSETNX', STATS, field, start)
  if not has_failed(redis.pcall('HINCRBY', STATS, field, by)) then return end
  if not has_failed(redis.pcall('HINCRBYFLOAT', STATS, field, by)) then return end
  redis.call('HSET', STATS, field, by) -- the old value is not a number
end
local function is_beyond(how, field, value)
  local there, here = tonumber(redis.call('HGET', STATS, field) or ''), tonumber(value)
  if not there or not here then return true end
  if how == 'max' then return here > there end
  return here < there
end

if (tonumber(redis.call('GET', LAST_BATCH)) or 0) < tonumber(batch) then
  if clear == '1' then redis.call('DEL', STATS) end
  for _ = 1, number() do
    local how, field, value, start = argument(), argument(), argument(), argument()
    if how == 'add' then
      add(field, value, start)
    elseif how == 'set' or is_beyond(how, field, value) then
      redis.call('HSET', STATS, field, value)
    end
  end
  redis.call('SET', LAST_BATCH, batch, 'EX', again)
end
if expire == '1' then
  redis.call('EXPIRE', STATS, kept)
else
  redis.call('PERSIST', STATS)
end
return redis.call('HGETALL', STATS)
