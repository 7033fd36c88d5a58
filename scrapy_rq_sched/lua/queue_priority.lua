-- By priority: a sorted set, the lowest score first.
-- queue_push(entries)   entries = { {-priority, request}, … }, in order of arrival
-- queue_take(n)         -> { {score, request}, … }, at most n, next first
-- queue_put_back(entries)  what queue_take gave, to where it stood
-- queue_drop(n)         -> as queue_take, but from the other end: what would come last
local QUEUE_TYPE = 'zset'
-- The counter's share of a score; see ORDER_BITS in queue.py.
local ORDER = 4294967296

local function queue_length()
  return redis.call('ZCARD', REQUESTS)
end

local function queue_push(entries)
  -- Not INCRBY: whatever somebody may have put there, a push does not fail half-way.
  local count = tonumber(redis.call('GET', COUNTER)) or 0
  if not (count >= 0 and count < 9007199254740992) then count = 0 end
  redis.call('SET', COUNTER, string.format('%.0f', count + #entries))
  local values = {}
  for i, entry in ipairs(entries) do
    values[2 * i - 1], values[2 * i] = entry[1] + (count + i) % ORDER / ORDER, entry[2]
  end
  in_chunks(values, function(...) redis.call('ZADD', REQUESTS, ...) end)
end

local function queue_pop(command, n)
  local popped, entries = redis.call(command, REQUESTS, n), {}
  for i = 1, #popped, 2 do
    entries[#entries + 1] = {popped[i + 1], popped[i]}
  end
  return entries
end

local function queue_take(n)
  return queue_pop('ZPOPMIN', n)
end

local function queue_drop(n)
  return queue_pop('ZPOPMAX', n)
end

local function queue_put_back(entries)
  for _, entry in ipairs(entries) do
    redis.call('ZADD', REQUESTS, entry[1], entry[2])
  end
end
