-- Needs: keys, events
-- That a crawl is finished, which is so once.
local ending = {}

function ending.note(now)
  if redis.call('HSETNX', META, 'finished', now) == 0 then return end
  local known = redis.call('HMGET', META, 'pages', 'began')
  local began = tonumber(known[2] or '')
  events.tell('crawl_finished', nil, {
    pages = tonumber(known[1] or '') or 0, seconds = began and (now - began) / 1000 or nil,
    failed = redis.call('LLEN', FAILED),
  })
end

return ending -- seldom used
