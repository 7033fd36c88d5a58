-- Needs: keys, fleet/events, fleet/record, fleet/crawls, number_of
-- The beginning and the end of a crawl.
-- A worker that closes notes that the crawl is finished, but as long as another worker is there, a handler of its signal
-- spider_idle may still add requests. So the event is recorded when the last worker has left, or if it was killed, by
-- the first worker of the next crawl.
local crawl = {}

-- A crawl begins with *worker*.
function crawl.begin(worker, now)
  redis.call('HSET', META, 'began', now, 'going_since', now)
  record.begin(now)
  events.tell('crawl_started', worker)
end

-- -> whether a worker of an older version is there. Such a worker may be the last one, and clear the frontier without
-- recording the event.
local function has_older_worker()
  for _, worker in ipairs(redis.call('ZRANGE', WORKERS, 0, -1)) do
    if not redis.pcall('HGET', WORKER .. worker, 'records_end') then return true end
  end
  return false
end

-- An older version notes the finish without the second field, and records the event at once. And it does not remove the
-- second field with the first, so the event is due only if both are equal.
function crawl.note_finish(now)
  if redis.call('HSETNX', META, 'finished', now) == 0 then return end
  redis.call('HSET', META, 'finish_unrecorded', now)
  crawls.write('finished', nil, now)
  if has_older_worker() then crawl.tell_finish() end
end

-- The crawl goes on, so it is not finished, even if a worker has found it finished before.
function crawl.withdraw_finish()
  redis.call('PERSIST', STARTED)
  redis.call('DEL', FINISHED)
  redis.call('HDEL', META, 'finished', 'finish_unrecorded')
end

-- Record the event of the finish that is noted, unless it is recorded. The caller removes the note.
function crawl.tell_finish()
  local known = redis.call('HMGET', META, 'pages', 'began', 'finished', 'finish_unrecorded')
  if known[3] ~= known[4] then return end
  redis.call('HDEL', META, 'finish_unrecorded')
  local began, finished = number_of(known[2], nil), number_of(known[3], nil)
  -- A worker that slept may find the end of a crawl again that was already cleared: record no event for it.
  if not (began and finished) then return end
  local entry = crawls.write('finished', nil, finished)
  for _, difference in ipairs(entry and crawls.differences(entry) or {}) do
    local figure, is, was = unpack(difference)
    events.tell('crawl_differs', nil, {figure = figure, now = is, before = was, run = entry.run,
      percent = math.floor(100 * (is - was) / was + 0.5)})
  end
  -- The failed list also has entries of earlier crawls.
  local failed = entry and 0 or redis.call('LLEN', FAILED)
  for _, count in pairs(entry and entry.aside or {}) do failed = failed + count end
  record.clear()
  events.tell('crawl_finished', nil, {
    pages = number_of(known[1], 0), seconds = (finished - began) / 1000, failed = failed,
  })
end

-- Delete the fields of META that are about the finished crawl, also the orders to its workers, which are not for the next
-- crawl. finish: the time of its end: an order that was given later is kept. If it is nil, no order is kept.
function crawl.forget_finish(finish)
  redis.call('HDEL', META, 'finished', 'finish_unrecorded', 'waiting', 'lost', 'found', 'unshared', 'unshared_reason',
    'limited', 'rewound', 'moves_heard', 'limits_changed', 'recalled', 'stalled', 'no_memory', 'no_room', 'runs', 'caps',
    'unmet', 'resumed')
  local given = redis.call('HMGET', META, 'state_since', 'stop')
  if not finish or number_of(given[1], 0) <= finish then redis.call('HDEL', META, 'state', 'state_since') end
  if not finish or number_of(given[2], 0) / 1000 <= finish then redis.call('HDEL', META, 'stop', 'stop_reason') end
end

return crawl -- seldom used
