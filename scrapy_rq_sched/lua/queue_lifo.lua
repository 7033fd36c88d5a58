-- Last in, first out: a list, pushed at its head and taken from there.
-- queue_push(entries)   entries = { {-priority, request}, … }, in order of arrival
-- queue_take(n)         -> { {score, request}, … }, at most n, next first; the score means nothing
-- queue_put_back(entries)  what queue_take gave, to where it stood
-- queue_drop(n)         -> as queue_take, but from the other end: what would come last
local QUEUE_TYPE = 'list'

local function queue_length()
  return redis.call('LLEN', REQUESTS)
end

local function queue_push(entries)
  local requests = {}
  for i, entry in ipairs(entries) do requests[i] = entry[2] end
  in_chunks(requests, function(...) redis.call('LPUSH', REQUESTS, ...) end)
end

local function queue_pop(command, n)
  local entries = {}
  for i, request in ipairs(redis.call(command, REQUESTS, n) or {}) do
    entries[i] = {'0', request}
  end
  return entries
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
