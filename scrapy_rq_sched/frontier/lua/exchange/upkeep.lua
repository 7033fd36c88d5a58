-- Needs: keys, slots/slots, store/seeds, store/leases, store/histories, store/groups, store/pools, store/items, store/failures, store/outcomes, store/put_back, fleet/events, number_of, count_up, fleet/record, fleet/lost, exchange/header, exchange/slot_admission
-- The upkeep in every exchange: note the state of the worker, and reclaim the leases of dead workers.
--
-- step: busy; returned: the number of reclaimed leases; dead: the dead workers
local upkeep = {}
-- How many leases of a dead worker are reclaimed in one exchange, and from how many workers.
local RECLAIMED, DEAD_AT_A_TIME = 150, '4'
-- A worker may be suspended for longer than its lease and then repeat an exchange. Its key is kept for this many
-- milliseconds, or for ten leases.
local REMEMBERED = 86400000
-- How many exchanges of a worker renew that once.
local RENEWED = 8
-- How long the histogram of exchanges is kept, in seconds.
local TIMES_KNOWN = 30 * 86400

-- If a worker holds no requests, its leases in Redis can only be from older data: put them back.
function upkeep.account(step)
  if header.in_hand + step.kept == 0 and not step.repeated and step.holds > 0 then
    local held = pairs_of(redis.call('HGETALL', step.held))
    put_back(held, step.worker, header.max_failed, step.now)
    slot_admission.release(held, step.worker)
    pools.taken(step.worker, held)
    redis.call('DEL', step.held)
  end
end

local function note_new(step)
  local before, own = step.before, step.own
  step.duplicates = table.concat(step.duplicates, ' ')
  -- 3: older data, because the frontier is lost. A repetition would no longer find that.
  local found = step.membership == 2 and step.lost == 'frontier' and 3 or step.membership
  redis.call('HSET', own, 'exchange', whole(header.exchange),
    'answered', step.stored .. ' ' .. found .. ' ' .. step.duplicates, 'busy', step.busy, 'heard', whole(step.now),
    'pages', whole(number_of(before.pages, 0) + header.pages), 'begun', header.begun, 'sown', header.expanded,
    'passed', header.passed or '')
  -- Redis may have lost the fields that were written when the worker joined.
  if not before.joined then redis.call('HSET', own, 'joined', exact_time(), 'lease', header.lease_ms, 'records_end', 1) end
  if header.offers and not before.joined then redis.call('HSET', own, 'offers', header.offers) end
  if header.bottleneck then redis.call('HSET', own, 'limit', header.bottleneck) end
  if header.times then
    for bucket, n in pairs(header.times) do count_up(TIMES, bucket, n) end
    redis.call('EXPIRE', TIMES, TIMES_KNOWN)
  end
  if header.found then
    count_up(META, 'found', header.found)
    count_up(META, 'unshared', header.local_only or 0)
    redis.call('HSET', META, 'unshared_reason', header.local_only_reason or '')
  end
  -- A worker that came after the end of a crawl has no part in one.
  local has_part = step.made and not step.before.over
  if has_part and (header.counts or header.slot_counts or header.outcomes) then
    step.run = record.note(step.worker, header.run, header.counts, header.slot_counts, step.now)
    if header.outcomes then outcomes.note(ARGV[header.first.outcomes + 1], header.max_outcomes) end
  end
  if step.over and header.in_hand == 0 and step.busy == '0' then
    -- Now it is a worker like any other. The next worker that joins writes the settings of the frontier. But this
    -- worker does not know when its crawl finished, until it takes part in another crawl.
    redis.call('HSET', own, 'over', 0)
    if not step.made then
      change_epoch()
      slots.keep_blocks()
    end
  elseif step.over then
    redis.call('HSET', own, 'over', 1)
  end
  if before.reclaimed or before.left then redis.call('HDEL', own, 'reclaimed', 'left') end
  if before.reclaimed or before.left or not before.joined then
    events.tell('worker_joined', step.worker, {again = true})
    record.is_back(step.worker)
    lost.remove(step.worker)
  end
end

function upkeep.note(step)
  if step.repeated then
    step.duplicates, step.stored = step.answered.duplicates, step.answered.stored
  end
  step.busy = (header.busy or step.stored < header.pushes) and '1' or '0'
  if not step.repeated then
    note_new(step)
  elseif header.exchange == step.last then
    -- If the worker counted as dead meanwhile, it was not busy; now it is heard again. Ignore `busy` from a late repeat
    -- of an older exchange: it is out of date.
    redis.call('HSET', step.own, 'busy', step.busy)
  end
  -- A worker makes at least three exchanges in a lease, so this is renewed long before it is due.
  if step.repeated or not step.before.joined or header.exchange % RENEWED == 1 then
    redis.call('PEXPIRE', step.own, math.max(REMEMBERED, 10 * header.lease_ms))
  end
end

-- Reclaim one lease of a dead worker. -> whether it goes back to the queue, and whether it was begun
local function take_over(dead, lease, died)
  local kind, _, _, request = leases.read(lease[2])
  redis.call('HDEL', LEASES .. dead, lease[1])
  local had_begun = leases.place(lease[1]) <= (seeds.kinds[kind] and died.expanded or died.begun)
    and not string.find(died.passed, ' ' .. lease[1] .. ' ', 1, true)
  local history = died.left and histories.of(request)
    or histories.add(request, had_begun and 'died' or 'unbegun', dead, died.at)
  local deaths = histories.count(history, 'died')
  if histories.count(history, 'done') > 0 then
    redis.call('HDEL', HISTORY, redis.sha1hex(request))
    items.drop(dead, lease[1])
    groups.released(request)
    return false, false
  elseif deaths >= header.max_deliveries then
    failures.set_aside(dead, lease, 'its worker died ' .. deaths .. ' times', '', 0, header.max_failed, died.now)
    return false, false
  end
  -- If the worker is only slow, it may still finish this request.
  if had_begun and not died.left then
    redis.call('HSET', WORKER .. dead, 'r:' .. lease[1], redis.sha1hex(request))
  end
  return true, had_begun
end

local function reclaim_from(dead, step)
  local last = redis.call('HMGET', WORKER .. dead, 'left', 'begun', 'sown', 'passed', 'replaced')
  local died = {
    at = tonumber(redis.call('ZSCORE', WORKERS, dead)), now = step.now, left = last[1],
    begun = leases.place(last[2] or ''), expanded = leases.place(last[3] or ''), passed = ' ' .. (last[4] or '') .. ' ',
  }
  events.tell_gone(dead, 'worker_lost')
  local back, some = {}, leases.some(LEASES .. dead, RECLAIMED, leases.MAX_BYTES)
  local begun = 0
  for _, lease in ipairs(some) do
    local goes_back, had_begun = take_over(dead, lease, died)
    if goes_back then back[#back + 1] = lease end
    begun = begun + (had_begun and 1 or 0)
  end
  record.ended(dead, last[1] and 'left' or 'lost', step.now, begun)
  put_back(back, dead, header.max_failed, step.now)
  if step.is_limited then slot_admission.release(some, dead) end
  pools.taken(dead, some, true)
  step.returned = step.returned + #back
  redis.call('HSET', WORKER .. dead, 'reclaimed', 1, 'busy', 0)
  redis.call('PEXPIRE', WORKER .. dead, math.max(REMEMBERED, 10 * header.lease_ms))
  if redis.call('HLEN', LEASES .. dead) == 0 then
    redis.call('ZREM', WORKERS, dead)
    redis.call('UNLINK', SLOTS_OF .. dead)
    groups.forget_worker(dead)
    pools.forget_worker(dead, true)
    if not (last[1] or last[5]) then lost.add(dead, died.at, step.now) end
  end
end

-- Put the leases of dead workers back to their places, a limited number at a time. A worker that has left, and could
-- not report the fate of its leases, did not die of them. Nor did a worker die of a request that it had not begun by
-- its last report: such a death only makes the request a suspect, and a worker reports a suspect before it begins it.
function upkeep.reclaim(step)
  step.dead = {}
  -- If this worker counted as dead itself, it may be about to report requests that another worker crawls by now.
  local at_a_time = step.membership == 1 and '0' or DEAD_AT_A_TIME
  for _, dead in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '-inf', step.now, 'LIMIT', '0', at_a_time)) do
    if wrong_type({{LEASES .. dead, 'hash'}, {WORKER .. dead, 'hash'}}) then
      -- Somebody has stored a value of another type there: there are no leases to reclaim.
      events.tell_gone(dead, 'worker_lost')
      record.ended(dead, 'lost', step.now)
      redis.call('ZREM', WORKERS, dead)
    else
      reclaim_from(dead, step)
    end
    step.dead[#step.dead + 1] = dead
  end
  step.workers = redis.call('ZCARD', WORKERS)
end

return upkeep
