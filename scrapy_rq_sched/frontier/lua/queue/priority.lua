-- Needs: keys
-- By priority: a sorted set, the lowest score first.
-- queue.length(call)    -> how many; call: redis.pcall, to be given the error if it is of another type
-- queue.push(ranks, requests)  lists of -priority and of requests, in order of arrival
-- queue.take(n)         -> scores, requests: lists of at most n, next first
-- queue.put_back(entries)  entries = { {score, request}, … }: what was taken, to where it stood
-- queue.drop(n)         -> as queue.take, but from the other end: what would come last
local queue = {type = 'zset'}
-- The counter's share of a score; see ORDER_BITS in queue.py.
local ORDER = 4294967296

function queue.length(call)
  return (call or redis.call)('ZCARD', REQUESTS)
end

function queue.push(ranks, requests)
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

local function pop(command, n)
  local popped, scores, requests = n > 0 and redis.call(command, REQUESTS, n) or {}, {}, {}
  for i = 1, #popped, 2 do
    requests[(i + 1) / 2], scores[(i + 1) / 2] = popped[i], popped[i + 1]
  end
  return scores, requests
end

function queue.take(n)
  return pop('ZPOPMIN', n)
end

function queue.drop(n)
  return pop('ZPOPMAX', n)
end

function queue.put_back(entries)
  for _, entry in ipairs(entries) do
    redis.call('ZADD', REQUESTS, entry[1], entry[2])
  end
end

return queue
