-- Needs: keys
-- First in, first out: a list, pushed at its head and taken from its tail.
-- queue.length(call)    -> how many; call: redis.pcall, to be given the error if it is of another type
-- queue.push(ranks, requests)  lists of -priority and of requests, in order of arrival
-- queue.take(n)         -> scores, requests: lists of at most n, next first; the scores mean nothing
-- queue.put_back(entries)  entries = { {score, request}, … }: what was taken, to where it stood
-- queue.drop(n)         -> as queue.take, but from the other end: what would come last
local queue = {type = 'list'}

function queue.length(call)
  return (call or redis.call)('LLEN', REQUESTS)
end

function queue.push(_, requests)
  in_chunks(requests, function(...) redis.call('LPUSH', REQUESTS, ...) end)
end

-- One by one: Redis 6.2 looks for the last n from the head, through the whole list.
local function pop(command, n)
  local scores, requests = {}, {}
  for i = 1, n do
    local request = redis.call(command, REQUESTS)
    if not request then break end
    scores[i], requests[i] = '0', request
  end
  return scores, requests
end

function queue.take(n)
  return pop('RPOP', n)
end

function queue.drop(n)
  return pop('LPOP', n)
end

function queue.put_back(entries)
  for i = #entries, 1, -1 do
    redis.call('RPUSH', REQUESTS, entries[i][2])
  end
end

return queue
