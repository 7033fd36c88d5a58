-- A worker joins the frontier, which is made if there is none.
--
-- ARGV  worker, lease timeout (ms), age of the worker's process (ms), busy (0/1), flush (0/1),
--       persist (0/1), epoch for a new frontier, about this worker (text),
--       n, then n times: field, value    what the frontier has to have been made with
-- Reply {problem, …}
--       {'type', key, its type, the type it should have}: nothing was changed
--       {'mismatch', field, the frontier's value, this worker's}: nothing was changed
--       {'', flushed (0/1), waiting, seen, seeds, leased, workers}
local worker, lease_ms, age, busy = argument(), number(), number(), argument()
local flush, persist, epoch, about = argument(), argument(), argument(), argument()

local types = {
  {COUNTER, 'string'}, {DUPEFILTER, 'set'}, {STARTED, 'set'},
  {DELAYED, 'zset'}, {WORKERS, 'zset'}, {HISTORY, 'hash'}, {FAILED, 'list'}, {META, 'hash'},
  {FINISHED, 'string'},
}
local seeds_are = seed_type()
types[#types + 1] = {SEEDS, SEED_LENGTH[seeds_are] and seeds_are or 'list'}
local function wrong_type(key, expected)
  local kind = redis.call('TYPE', key)['ok']
  if kind ~= 'none' and kind ~= expected then return {'type', key, kind, expected} end
end
for _, expected in ipairs(types) do
  local problem = wrong_type(expected[1], expected[2])
  if problem then return problem end
end

local now = server_time()
local others = redis.call('ZCOUNT', WORKERS, '(' .. now, '+inf')

-- A worker started before the last finish is late for that crawl: it must not begin it anew. One
-- started after it begins a new crawl.
local finish = tonumber(redis.call('GET', FINISHED))
local anew = finish and now - age >= finish and others == 0
local flushed = flush == '1' and others == 0
-- The last worker of a finished crawl may have died before it cleared up.
local uncleared = anew and persist ~= '1' and redis.call('EXISTS', REQUESTS) + fleet() == 0

local made_with = {}
for _ = 1, number() do
  local field, value = argument(), argument()
  local there = redis.call('HGET', META, field)
  if there and there ~= value and not flushed and not uncleared then
    return {'mismatch', field, there, value}
  end
  made_with[#made_with + 1] = {field, value}
end

-- Only now: a queue of another class is better named than by its type.
-- A flush is also how to change it.
local problem = not flushed and QUEUE_TYPE and wrong_type(REQUESTS, QUEUE_TYPE)
if problem then return problem end

if flushed then
  for _, name in ipairs(redis.call('ZRANGE', WORKERS, 0, -1)) do
    redis.call('DEL', LEASES .. name, WORKER .. name)
  end
  redis.call('DEL', REQUESTS, DELAYED, WORKERS)
end
if flushed or uncleared then redis.call('DEL', COUNTER, DUPEFILTER, HISTORY, META) end
if flushed or anew then redis.call('DEL', STARTED, FINISHED) end
for _, pair in ipairs(made_with) do redis.call('HSET', META, pair[1], pair[2]) end
redis.call('HSETNX', META, 'epoch', epoch)

redis.call('ZADD', WORKERS, now + lease_ms, worker)
redis.call('HSET', WORKER .. worker, 'exchange', 0, 'duplicates', '', 'busy', busy, 'about', about)
redis.call('PEXPIRE', WORKER .. worker, math.max(86400000, 10 * lease_ms))
local leased = fleet()
return {
  '', flushed and 1 or 0, queue_length(), redis.call('SCARD', DUPEFILTER), seed_count(seeds_are),
  leased, redis.call('ZCARD', WORKERS),
}
