-- By priority: a sorted set, the lowest score first.
-- queue_push(ranks, requests)  lists of -priority and of requests, in order of arrival
-- queue_take(n)         -> scores, requests: lists of at most n, next first
-- queue_put_back(entries)  entries = { {score, request}, … }: what was taken, to where it stood
-- queue_drop(n)         -> as queue_take, but from the other end: what would come last
local QUEUE_TYPE = 'zset'
-- The counter's share of a score; see ORDER_BITS in queue.py.
local ORDER = 4294967296

local function queue_length()
  return redis.call('ZCARD', REQUESTS)
end

local function queue_push(ranks, requests)
  -- Not INCRBY: whatever somebody may have put there, a push does not fail half-way.
  local count = tonumber(redis.call('GET', COUNTER)) or 0
  if not (count >= 0 and count < 9007199254740992) then count = 0 end
  redis.call('SET', COUNTER, string.format('%.0f', count + #requests))
  local values = {}
  for i, request in ipairs(requests) do
    values[2 * i - 1], values[2 * i] = ranks[i] + (count + i) % ORDER / ORDER, request
  end
  in_chunks(values, function(...) redis.call('ZADD', REQUESTS, ...) end)
end

local function queue_pop(command, n)
  local popped, scores, requests = n > 0 and redis.call(command, REQUESTS, n) or {}, {}, {}
  for i = 1, #popped, 2 do
    requests[(i + 1) / 2], scores[(i + 1) / 2] = popped[i], popped[i + 1]
  end
  return scores, requests
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
