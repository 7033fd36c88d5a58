-- Needs: keys, seeds, leases, histories, failures, put_back, events, exchange/said, exchange/limited
-- What is kept up with every exchange: what is known of its worker, and what the dead held.
--
-- turn: busy; returned: requests of the dead that went back; dead: whose they were
local upkeep = {}
-- Of a dead worker's leases, so many go back in an exchange, and as many bytes.
local RECLAIMED, DEAD_AT_A_TIME = 150, '4'
-- A worker may be stopped for longer than its lease and then repeat an exchange: so long, in milliseconds, or
-- ten leases, it is remembered.
local REMEMBERED = 86400000
-- Seconds for which it is known how long exchanges took.
local TIMES_KNOWN = 30 * 86400

-- A worker that holds nothing has no leases: what is here came back with older data of Redis's.
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
    'pages', (tonumber(before.pages) or 0) + said.pages, 'begun', said.begun, 'sown', said.sown,
    'passed', said.passed or '')
  -- Redis may have lost what it was told when the worker joined.
  if not before.joined then redis.call('HSET', own, 'joined', exact_time(), 'lease', said.lease_ms) end
  if said.limit then redis.call('HSET', own, 'limit', said.limit) end
  if said.times then
    for bucket, n in pairs(said.times) do redis.pcall('HINCRBY', META .. ':times', bucket, n) end
    redis.call('EXPIRE', META .. ':times', TIMES_KNOWN)
  end
  if said.found then
    redis.call('HINCRBY', META, 'found', said.found)
    redis.call('HINCRBY', META, 'unshared', said.unshared or 0)
    redis.call('HSET', META, 'unshared_reason', said.unshared_reason or '')
  end
  if turn.over and said.in_hand == 0 and turn.busy == '0' then
    -- Now it is a worker like any other; what the frontier is made with, the next to join says. But it knows
    -- nothing of when its crawl finished, until it has a part in another.
    redis.call('HSET', own, 'over', 0)
    if not turn.made then change_epoch() end
  elseif turn.over then
    redis.call('HSET', own, 'over', 1)
  end
  if before.reclaimed or before.left then redis.call('HDEL', own, 'reclaimed', 'left') end
  if before.reclaimed or before.left or not before.joined then
    events.tell('worker_joined', turn.worker, {again = true})
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
    -- Who was given up for dead meanwhile does not count as busy: it is heard again. An older exchange that comes
    -- so late that nobody waits for it says nothing of now.
    redis.call('HSET', turn.own, 'busy', turn.busy)
  end
  redis.call('PEXPIRE', turn.own, math.max(REMEMBERED, 10 * said.lease_ms))
end

-- Take one lease of a dead worker: -> whether it goes back to where it stood
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
  -- If it is only slow, it may finish this one after all.
  if had_begun and not died.left then
    redis.call('HSET', WORKER .. dead, 'r:' .. lease[1], redis.sha1hex(request))
  end
  return true
end

local function reclaim_from(dead, turn)
  local last = redis.call('HMGET', WORKER .. dead, 'left', 'begun', 'sown', 'passed')
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
  end
end

-- The dead: what they held goes back to where it stood, a bounded number at a time. Who has left, and could
-- not say what became of its leases, has not died of them. Nor of what it had not begun, as far as it has said:
-- that makes a request a suspect, and of a suspect it is said before it is begun.
function upkeep.reclaim(turn)
  turn.dead = {}
  -- A worker that was itself given up for dead may be about to say that it has finished what another is at by now.
  local at_a_time = turn.standing == 1 and '0' or DEAD_AT_A_TIME
  for _, dead in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '-inf', turn.now, 'LIMIT', '0', at_a_time)) do
    if wrong_type({{LEASES .. dead, 'hash'}, {WORKER .. dead, 'hash'}}) then
      -- Somebody has put something else in its place: there is nothing to bring back.
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
