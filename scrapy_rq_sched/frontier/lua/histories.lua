-- Needs: keys
-- What befell a request that came back, each with '<worker>@<second>': 'died:' (its worker died after it said that
-- it had begun it), 'unbegun:' (its worker died before it said so), 'refused:' (its worker lacks code for it), 'done:'
-- (a worker that had been given up for dead has finished it after all).
local histories = {}

function histories.of(request)
  return redis.call('HGET', HISTORY, redis.sha1hex(request)) or ''
end

function histories.count(history, what)
  local _, count = string.gsub(' ' .. history, ' ' .. what .. ':', '')
  return count
end

function histories.add(request, what, worker, time)
  local history = histories.of(request)
  -- A worker refuses for one reason, however often it is asked. And where it held several equal requests,
  -- they have one history, and its death is one death.
  local entry = string.format('%s:%s@%.3f', what, worker, time / 1000)
  local known = what == 'refused' and 'refused:' .. worker .. '@' or entry .. ' '
  if string.find(history .. ' ', known, 1, true) then return history end
  history = history == '' and entry or history .. ' ' .. entry
  redis.call('HSET', HISTORY, redis.sha1hex(request), history)
  tally.befell = true
  return history
end

-- What every worker that counts a death or a lease of a request must know of it.
-- -> how many of its workers died, whether they had begun it or not; its history
function histories.deaths(request)
  local history = histories.of(request)
  return histories.count(history, 'died') + histories.count(history, 'unbegun'), history
end

-- *worker*, of which *own* is known, was given up for dead, and the request of its lease went back; but it was only
-- slow, and has finished it after all. Whoever takes the request next leaves it out.
function histories.note_done(own, lease, worker, now)
  local request = redis.call('HGET', own, 'r:' .. lease)
  local history = request and redis.call('HGET', HISTORY, request)
  if not history then return end
  redis.call('HSET', HISTORY, request, string.format('%s done:%s@%.3f', history, worker, now / 1000))
  redis.call('HDEL', own, 'r:' .. lease)
end

return histories -- seldom used
