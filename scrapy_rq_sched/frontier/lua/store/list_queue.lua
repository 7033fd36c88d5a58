-- Needs: keys
-- A queue that is a list, with pushes at its head. The disciplines differ only in three commands: *take* takes the next
-- entry, *drop* takes the entry that would come last, *put_back* puts an entry before the next one.
--
-- list_queue(take, drop, put_back)  -> queue, with the functions of store/queue/priority.lua; scores are ignored

-- Pop one by one: in Redis 6.2, popping n entries from the tail walks through the whole list.
local function pop(command, key, n)
  local scores, requests = {}, {}
  for i = 1, n do
    local request = redis.call(command, key)
    if not request then break end
    scores[i], requests[i] = '0', request
  end
  return scores, requests
end

local function list_queue(take, drop, put_back)
  local list = {type = 'list'}

  function list.length(key, call)
    return (call or redis.call)('LLEN', key)
  end

  function list.scores(ranks)
    return ranks
  end

  function list.add_one(key, _, request)
    redis.call('LPUSH', key, request)
    return 1
  end

  function list.add(key, _, requests)
    in_chunks(requests, function(...) redis.call('LPUSH', key, ...) end)
    return #requests
  end

  function list.take_one(key)
    local request = redis.call(take, key)
    return '0', request or nil
  end

  function list.take(key, n)
    return pop(take, key, n)
  end

  function list.drop(key, n)
    return pop(drop, key, n)
  end

  function list.put_back(key, entries)
    for i = #entries, 1, -1 do
      redis.call(put_back, key, entries[i][2])
    end
    return #entries
  end

  return list
end

return list_queue
