-- Needs: keys
-- The histories of requests that came back. Each entry has '<worker>@<second>' after one of these words: 'died:' (the
-- worker died after it had reported that it began the request), 'unbegun:' (it died before such a report), 'refused:'
-- (it lacks code for the request), 'done:' (it had counted as dead, but has finished the request after all).
local histories = {}

function histories.of(request)
  return redis.call('HGET', HISTORY, redis.sha1hex(request)) or ''
end

function histories.count(history, event)
  local _, count = string.gsub(' ' .. history, ' ' .. event .. ':', '')
  return count
end

function histories.add(request, event, worker, time)
  local history = histories.of(request)
  -- A worker's refusal counts once, however often it is asked. And if a worker held several equal requests, they share
  -- one history, in which its death counts once.
  local entry = string.format('%s:%s@%.3f', event, worker, time / 1000)
  local known = event == 'refused' and 'refused:' .. worker .. '@' or entry .. ' '
  if string.find(history .. ' ', known, 1, true) then return history end
  history = history == '' and entry or history .. ' ' .. entry
  redis.call('HSET', HISTORY, redis.sha1hex(request), history)
  tally.befell = true
  return history
end

-- -> how many of a request's workers died, whether they had begun it or not; and its history
function histories.deaths(request)
  local history = histories.of(request)
  return histories.count(history, 'died') + histories.count(history, 'unbegun'), history
end

-- Note that *worker* has finished the request of *lease* after all: it had counted as dead, and the request went back,
-- but it was only slow. The worker that takes the request next skips it. own: the worker's key
function histories.note_done(own, lease, worker, now)
  local request = redis.call('HGET', own, 'r:' .. lease)
  local history = request and redis.call('HGET', HISTORY, request)
  if not history then return end
  redis.call('HSET', HISTORY, request, string.format('%s done:%s@%.3f', history, worker, now / 1000))
  redis.call('HDEL', own, 'r:' .. lease)
end

return histories -- seldom used
