-- Needs: keys, events
-- That a crawl is finished, which is so once.
local ending = {}

function ending.note(now)
  if redis.call('HSETNX', META, 'finished', now) == 0 then return end
  local known = redis.call('HMGET', META, 'pages', 'began')
  local began = tonumber(known[2] or '')
  -- Of a crawl that was cleared already, a worker that has slept meanwhile finds the end once more.
  if not began then return end
  events.tell('crawl_finished', nil, {
    pages = tonumber(known[1] or '') or 0, seconds = (now - began) / 1000,
    failed = redis.call('LLEN', FAILED),
  })
end

return ending -- seldom used
