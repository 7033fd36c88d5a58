-- Last in, first out: a list, pushed at its head and taken from there.
-- queue_push(ranks, requests)  lists of -priority and of requests, in order of arrival
-- queue_take(n)         -> scores, requests: lists of at most n, next first; the scores mean nothing
-- queue_put_back(entries)  entries = { {score, request}, … }: what was taken, to where it stood
-- queue_drop(n)         -> as queue_take, but from the other end: what would come last
local QUEUE_TYPE = 'list'

local function queue_length()
  return redis.call('LLEN', REQUESTS)
end

local function queue_push(_, requests)
  in_chunks(requests, function(...) redis.call('LPUSH', REQUESTS, ...) end)
end

-- One by one: Redis 6.2 looks for the last n from the head, through the whole list.
local function queue_pop(command, n)
  local scores, requests = {}, {}
  for i = 1, n do
    local request = redis.call(command, REQUESTS)
    if not request then break end
    scores[i], requests[i] = '0', request
  end
  return scores, requests
end

local function queue_take(n)
  return queue_pop('LPOP', n)
end

local function queue_drop(n)
  return queue_pop('RPOP', n)
end

local function queue_put_back(entries)
  for i = #entries, 1, -1 do
    redis.call('LPUSH', REQUESTS, entries[i][2])
  end
end
