-- Needs: keys
-- By priority: a sorted set, the lowest score first.
-- queue.length(key, call)  -> the number of requests; with redis.pcall as *call*, the error if the type is wrong
-- queue.scores(ranks)      -> scores for queue.add; ranks: negative priorities, in order of arrival
-- queue.add(key, scores, requests); queue.add_one(key, score, request)  -> how many more requests wait now: a request
--                          with the very same text as a waiting one replaces it
-- queue.take(key, n)       -> scores, requests: lists of at most n, the next request first
-- queue.take_one(key)      -> score, request of the next request; nil if there is none
-- queue.put_back(key, entries)  entries = { {score, request}, … }: requests that were taken, back to their places
--                          -> how many more requests wait now
-- queue.drop(key, n)       -> like queue.take, but from the other end: the requests that would come last
local queue = {type = 'zset'}
-- The divisor for the counter's part of a score; see ORDER_BITS in queue.py.
local ORDER = 4294967296

function queue.length(key, call)
  return (call or redis.call)('ZCARD', key)
end

function queue.scores(ranks)
  -- Not INCRBY: it would fail in the middle of a push if somebody has stored other text there.
  local count, scores = tonumber(redis.call('GET', COUNTER)) or 0, {}
  if not (count >= 0 and count < 9007199254740992) then count = 0 end
  redis.call('SET', COUNTER, whole(count + #ranks))
  for i, rank in ipairs(ranks) do scores[i] = rank + (count + i) % ORDER / ORDER end
  return scores
end

function queue.add_one(key, score, request)
  return redis.call('ZADD', key, score, request)
end

function queue.add(key, scores, requests)
  local values, added = {}, 0
  for i, request in ipairs(requests) do values[2 * i - 1], values[2 * i] = scores[i], request end
  in_chunks(values, function(...) added = added + redis.call('ZADD', key, ...) end)
  return added
end

local function pop(command, key, n)
  local popped, scores, requests = n > 0 and redis.call(command, key, n) or {}, {}, {}
  for i = 1, #popped, 2 do
    requests[(i + 1) / 2], scores[(i + 1) / 2] = popped[i], popped[i + 1]
  end
  return scores, requests
end

function queue.take_one(key)
  local popped = redis.call('ZPOPMIN', key)
  return popped[2], popped[1]
end

function queue.take(key, n)
  return pop('ZPOPMIN', key, n)
end

function queue.drop(key, n)
  return pop('ZPOPMAX', key, n)
end

function queue.put_back(key, entries)
  local added = 0
  for _, entry in ipairs(entries) do added = added + redis.call('ZADD', key, entry[1], entry[2]) end
  return added
end

return queue
