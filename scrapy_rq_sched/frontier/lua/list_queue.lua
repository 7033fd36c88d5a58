-- Needs: keys
-- A queue that is a list, pushed at its head. Only its ends differ: which command takes the next entry, which one
-- takes the entry that would come last, and which one puts an entry back before the next.
--
-- list_queue(take, drop, put_back)  -> queue
-- queue.length(call)    -> how many; call: redis.pcall, to be given the error if it is of another type
-- queue.push(ranks, requests)  lists of -priority and of requests, in order of arrival
-- queue.take(n)         -> scores, requests: lists of at most n, next first; the scores mean nothing
-- queue.put_back(entries)  entries = { {score, request}, … }: what was taken, to where it stood
-- queue.drop(n)         -> as queue.take, but from the other end: what would come last

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

local function list_queue(take, drop, put_back)
  local list = {type = 'list'}

  function list.length(call)
    return (call or redis.call)('LLEN', REQUESTS)
  end

  function list.push(_, requests)
    in_chunks(requests, function(...) redis.call('LPUSH', REQUESTS, ...) end)
  end

  function list.take(n)
    return pop(take, n)
  end

  function list.drop(n)
    return pop(drop, n)
  end

  function list.put_back(entries)
    for i = #entries, 1, -1 do
      redis.call(put_back, REQUESTS, entries[i][2])
    end
  end

  return list
end

return list_queue
