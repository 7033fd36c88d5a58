-- Needs: keys, events
-- Note that the crawl is finished, only once.
local ending = {}

function ending.note(now)
  if redis.call('HSETNX', META, 'finished', now) == 0 then return end
  local known = redis.call('HMGET', META, 'pages', 'began')
  local began = tonumber(known[2] or '')
  -- A worker that slept may find the end of a crawl again that was already cleared: record no event for it.
  if not began then return end
  events.tell('crawl_finished', nil, {
    pages = tonumber(known[1] or '') or 0, seconds = (now - began) / 1000,
    failed = redis.call('LLEN', FAILED),
  })
end

return ending -- seldom used
