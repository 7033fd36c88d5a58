-- Needs: keys, seeds, leases, histories, failures, put_back, events, number_of, count_up, lost, exchange/said, exchange/limited
-- The upkeep in every exchange: note the state of the worker, and reclaim the leases of dead workers.
--
-- turn: busy; returned: the number of reclaimed leases; dead: the dead workers
local upkeep = {}
-- How many leases of a dead worker are reclaimed in one exchange, and from how many workers.
local RECLAIMED, DEAD_AT_A_TIME = 150, '4'
-- A worker may be suspended for longer than its lease and then repeat an exchange. Its key is kept for this many
-- milliseconds, or for ten leases.
local REMEMBERED = 86400000
-- How long the histogram of exchanges is kept, in seconds.
local TIMES_KNOWN = 30 * 86400

-- If a worker holds no requests, its leases in Redis can only be from older data: put them back.
function upkeep.account(turn)
  if said.in_hand + turn.kept == 0 and not turn.repeated and turn.holds > 0 then
    local held = pairs_of(redis.call('HGETALL', turn.held))
    put_back(held, turn.worker, said.most_failed, turn.now)
    limited.release(held, turn.worker)
    redis.call('DEL', turn.held)
  end
end

local function note_new(turn)
  local before, own = turn.before, turn.own
  turn.duplicates = table.concat(turn.duplicates, ' ')
  redis.call('HSET', own, 'exchange', said.exchange,
    'answered', turn.stored .. ' ' .. turn.standing .. ' ' .. turn.duplicates, 'busy', turn.busy, 'heard', turn.now,
    'pages', number_of(before.pages, 0) + said.pages, 'begun', said.begun, 'sown', said.sown,
    'passed', said.passed or '')
  -- Redis may have lost the fields that were written when the worker joined.
  if not before.joined then redis.call('HSET', own, 'joined', exact_time(), 'lease', said.lease_ms, 'records_end', 1) end
  if said.limit then redis.call('HSET', own, 'limit', said.limit) end
  if said.times then
    for bucket, n in pairs(said.times) do count_up(META .. ':times', bucket, n) end
    redis.call('EXPIRE', META .. ':times', TIMES_KNOWN)
  end
  if said.found then
    count_up(META, 'found', said.found)
    count_up(META, 'unshared', said.unshared or 0)
    redis.call('HSET', META, 'unshared_reason', said.unshared_reason or '')
  end
  if turn.over and said.in_hand == 0 and turn.busy == '0' then
    -- Now it is a worker like any other. The next worker that joins writes the settings of the frontier. But this
    -- worker does not know when its crawl finished, until it takes part in another crawl.
    redis.call('HSET', own, 'over', 0)
    if not turn.made then change_epoch() end
  elseif turn.over then
    redis.call('HSET', own, 'over', 1)
  end
  if before.reclaimed or before.left then redis.call('HDEL', own, 'reclaimed', 'left') end
  if before.reclaimed or before.left or not before.joined then
    events.tell('worker_joined', turn.worker, {again = true})
    lost.remove(turn.worker)
  end
end

function upkeep.note(turn)
  if turn.repeated then
    turn.duplicates, turn.stored = turn.answered.duplicates, turn.answered.stored
  end
  turn.busy = (said.busy or turn.stored < said.pushes) and '1' or '0'
  if not turn.repeated then
    note_new(turn)
  elseif said.exchange == turn.last then
    -- If the worker counted as dead meanwhile, it was not busy; now it is heard again. Ignore `busy` from a late repeat
    -- of an older exchange: it is out of date.
    redis.call('HSET', turn.own, 'busy', turn.busy)
  end
  redis.call('PEXPIRE', turn.own, math.max(REMEMBERED, 10 * said.lease_ms))
end

-- Reclaim one lease of a dead worker. -> whether it goes back to the queue
local function take_over(dead, lease, died)
  local kind, _, _, request = leases.read(lease[2])
  redis.call('HDEL', LEASES .. dead, lease[1])
  local had_begun = leases.place(lease[1]) <= (seeds.kinds[kind] and died.sown or died.begun)
    and not string.find(died.passed, ' ' .. lease[1] .. ' ', 1, true)
  local history = died.left and histories.of(request)
    or histories.add(request, had_begun and 'died' or 'unbegun', dead, died.at)
  local deaths = histories.count(history, 'died')
  if histories.count(history, 'done') > 0 then
    redis.call('HDEL', HISTORY, redis.sha1hex(request))
    return false
  elseif deaths >= said.deaths_allowed then
    failures.set_aside(dead, lease, 'its worker died ' .. deaths .. ' times', '', 0, said.most_failed, died.now)
    return false
  end
  -- If the worker is only slow, it may still finish this request.
  if had_begun and not died.left then
    redis.call('HSET', WORKER .. dead, 'r:' .. lease[1], redis.sha1hex(request))
  end
  return true
end

local function reclaim_from(dead, turn)
  local last = redis.call('HMGET', WORKER .. dead, 'left', 'begun', 'sown', 'passed', 'replaced')
  local died = {
    at = tonumber(redis.call('ZSCORE', WORKERS, dead)), now = turn.now, left = last[1],
    begun = leases.place(last[2] or ''), sown = leases.place(last[3] or ''), passed = ' ' .. (last[4] or '') .. ' ',
  }
  events.tell_gone(dead, 'worker_lost')
  local back, some = {}, leases.some(LEASES .. dead, RECLAIMED, leases.MAX_BYTES)
  for _, lease in ipairs(some) do
    if take_over(dead, lease, died) then back[#back + 1] = lease end
  end
  put_back(back, dead, said.most_failed, turn.now)
  if limited.is_on(turn) then limited.release(some, dead) end
  turn.returned = turn.returned + #back
  redis.call('HSET', WORKER .. dead, 'reclaimed', 1, 'busy', 0)
  redis.call('PEXPIRE', WORKER .. dead, math.max(REMEMBERED, 10 * said.lease_ms))
  if redis.call('HLEN', LEASES .. dead) == 0 then
    redis.call('ZREM', WORKERS, dead)
    redis.call('UNLINK', SLOTS_OF .. dead)
    if not (last[1] or last[5]) then lost.add(dead, died.at, turn.now) end
  end
end

-- Put the leases of dead workers back to their places, a limited number at a time. A worker that has left, and could
-- not report the fate of its leases, did not die of them. Nor did a worker die of a request that it had not begun by
-- its last report: such a death only makes the request a suspect, and a worker reports a suspect before it begins it.
function upkeep.reclaim(turn)
  turn.dead = {}
  -- If this worker counted as dead itself, it may be about to report requests that another worker crawls by now.
  local at_a_time = turn.standing == 1 and '0' or DEAD_AT_A_TIME
  for _, dead in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '-inf', turn.now, 'LIMIT', '0', at_a_time)) do
    if wrong_type({{LEASES .. dead, 'hash'}, {WORKER .. dead, 'hash'}}) then
      -- Somebody has stored a value of another type there: there are no leases to reclaim.
      events.tell_gone(dead, 'worker_lost')
      redis.call('ZREM', WORKERS, dead)
    else
      reclaim_from(dead, turn)
    end
    turn.dead[#turn.dead + 1] = dead
  end
  turn.workers = redis.call('ZCARD', WORKERS)
end

return upkeep
