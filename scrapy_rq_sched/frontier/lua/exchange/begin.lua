-- Needs: keys, queue, slots/slots, slots/lanes, store/groups, store/pools, store/put_back, fleet/permits, fleet/renew, fleet/export_notes, number_of, exchange/header, exchange/own_items, exchange/slot_admission
-- The begin of an exchange: note that the worker is alive, recognise the exchange, and find the orders for the worker.
--
-- step: the state of this exchange
--   worker, held, own: the worker's name, the key of its leases, and its own key
--   now; waiting, seen: the numbers of waiting requests and of fingerprints before the exchange; holds: the number of
--     the worker's leases
--   before: the worker's own key; meta: META; answered: the reply to the first attempt of a repeated exchange
--   deadline: the time after which the worker counts as dead; pages: the latest entry of PAGES
--   format: of the data in Redis; made: whether the frontier exists; full_memory: whether Redis is out of memory
--   has_rare: whether any key exists that a crawl without problems does not have
--   repeated: this exchange was applied before; rewound: Redis has come back with older data
--   membership: 1: the worker had counted as dead; 2: its leases went back to the queue because of older data
--   has_pools: whether the crawl uses pools; offers: what the worker offers, but for the pools without a free item
--   over: the crawl was finished and cleared without this worker
--   order: '', 'wait' (for a place), 'item' (of a pool), 'pause', 'drain' or 'stop'
--   want, want_seeds: the maximum that it is given
--   lost: data that disappeared though no script removed it
local begin = {}

-- The loss of fewer entries is not reported: somebody may have removed them on purpose.
begin.NOTICED = 10

-- All fields are listed here, so that Lua allocates the table only once.
function begin.new()
  local worker, now = header.worker, server_time()
  return {
    worker = worker, held = LEASES .. worker, own = WORKER .. worker, now = now,
    prefix = header.exchange .. '.', second = tostring(math.floor(now / 1000)), suspects = header.suspects or 0,
    want = header.want, want_seeds = header.want_seeds, parked = 0, order = '', membership = 0,
    waiting = 0, seen = 0, holds = 0, before = false, meta = false, deadline = false, pages = false, last = false, format = false,
    made = false, has_rare = false, full_memory = false, repeated = false, rewound = false, over = false, lost = '',
    duplicates = false, stored = 0, full = '', kept = 0, remembered = false, busy = false, dead = false, returned = 0,
    workers = 0, bytes = 0, passed_over = 0, dropped = 0, leases = {}, is_limited = false, has_policy = false,
    wants_policy = false, other_limits = false, limits_in_force = false, named_slots = 0, why = nil, limits_sent = nil, given = nil, ask_at = nil,
    given_outside = nil, ask_outside_at = nil, refused_outside = nil,
    backed_off = nil, freed = nil, given_up = 0, unmet = nil, let_go = 0, looked_at = 0, group_news = nil, groups_finished = nil,
    has_pools = false, offers = nil, pool_items = nil, own_items = nil, lacks_item = nil, wants_pools = nil, retired_items = nil,
    has_items = false, with_items = false, items = nil, no_items = nil, released = 0, unmoved = nil, run = nil,
  }
end

-- Move deadlines that are too late. Otherwise, after the clock was set back, dead workers would count as alive until
-- the clock has caught up. A worker notices that by its own deadline, and looks for it from time to time.
local CUT_EACH = 8
local function cut_deadlines(step, now)
  local latest = now + header.lease_ms
  if header.exchange % CUT_EACH ~= 1 and number_of(step.deadline, 0) <= latest then return end
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '(' .. latest, '+inf', 'LIMIT', '0', '100')) do
    local is_hash = redis.call('TYPE', WORKER .. name)['ok'] == 'hash'
    local lease = is_hash and redis.call('HGET', WORKER .. name, 'lease')
    local its_latest = now + number_of(lease, header.lease_ms)
    if tonumber(redis.call('ZSCORE', WORKERS, name)) > its_latest then
      redis.call('ZADD', WORKERS, its_latest, name)
    end
  end
end

-- Renew the worker's deadline. Redis refuses this first write when its memory is full. Then nothing is pushed, but the
-- worker stays alive, and releasing its finished requests makes room.
-- -> nil, or an error: then nothing was changed
function begin.heartbeat(step)
  local now, deadline = step.now, step.now + header.lease_ms
  local was_late = step.deadline and tonumber(step.deadline) <= now
  local was_away = was_late and redis.call('ZCOUNT', WORKERS, '(' .. now, '+inf') == 0
  local beat = redis.pcall('ZADD', WORKERS, deadline, step.worker)
  step.full_memory = has_failed(beat)
  if step.full_memory then
    if not string.find(step.full_memory, 'OOM', 1, true) then return beat end
    despite_full_memory()
    redis.call('ZADD', WORKERS, deadline, step.worker)
  end
  -- No worker is alive, so Redis was down. All workers get a full lease again before they count as dead.
  if was_away then renew(WORKERS, now, header.lease_ms) end
  if header.offers then lanes.renew(header.offers, deadline) end
  cut_deadlines(step, now)
end

function begin.recognise(step)
  local before, number = step.before, header.exchange
  local last = number_of(before.exchange, nil)
  step.last = last
  step.repeated = last and number <= last
  step.rewound = last and last < number - 1 or number > 1 and not last
  step.membership = step.rewound and 2 or before.reclaimed and 1 or 0
  if step.repeated then
    local answer = redis.call('HGET', step.own, 'answered') or ''
    local stored, membership, duplicates = string.match(answer, '^(%d+) (%d) ?([%d -]*)$')
    step.answered = {stored = tonumber(stored) or 0, duplicates = duplicates or '', found_loss = membership == '3'}
    step.membership = math.max(step.membership, math.min(2, tonumber(membership) or 0))
  end
  -- All requests that this worker still finds were crawled before. While it holds leases of the finished crawl, it gets
  -- none of another crawl.
  step.over = step.membership > 0 and not step.made and redis.call('EXISTS', FINISHED) == 1 or before.over == '1'
end

-- -> the data that disappeared because somebody deleted, evicted or emptied a key; '' if there is none
local function lost_data(step)
  local meta, made = step.meta, step.made
  if not step.over and (not made or step.rewound and not step.last and meta.lost) then return 'frontier' end
  if made and queue.type and step.waiting == 0 and number_of(meta.waiting, 0) >= begin.NOTICED then
    return 'requests ' .. meta.waiting
  end
  if made and step.seen == 0 and number_of(meta.seen, 0) >= begin.NOTICED then return 'dupefilter ' .. meta.seen end
  return ''
end

local ORDERS = {paused = 'pause', draining = 'drain'}

-- Find the orders for this worker. An order to stop does not concern workers that joined after it, unless it is for this
-- one alone.
function begin.orders(step)
  local meta = step.meta
  step.lost = step.repeated and step.answered.found_loss and 'frontier' or lost_data(step)
  step.order = ORDERS[meta.state] or ''
  -- A worker that was not heard in time may have lost its place to another.
  local most = header.max_workers
  if most and permits.take(step.worker, most, step.now, header.lease_ms, header.lease_ms) then
    step.want, step.want_seeds = 0, 0
    -- But if only this worker can still add requests, it must go on: the others would wait for it forever.
    if not (header.busy and step.waiting == 0) then step.order = 'wait' end
  end
  local joined = meta.stop and tonumber(step.before.joined)
  if step.before.stop or joined and joined < (tonumber(meta.stop) or 0) then step.order = 'stop' end
  export_notes.on = meta.exporting and number_of(meta.exporting, 0) > step.now
  if header.pools and not step.over then own_items.learn(step) end
  if step.over or step.order ~= '' then step.want, step.want_seeds = 0, 0 end
end

-- Redis came back with older data, or with none. The pushes of the lost exchanges are lost, so their pages must be
-- crawled again: put the worker's leases back. All caches of fingerprints are invalid, and so are the worker's
-- releases.
function begin.rewind(step)
  if step.rewound then
    if not step.over then change_epoch() end
    local held = pairs_of(redis.call('HGETALL', step.held))
    put_back(held, step.worker, header.max_failed, step.now)
    redis.call('DEL', step.held)
    slot_admission.release(held, step.worker)
    pools.taken(step.worker, held)
    if not step.over then slot_admission.be_quiet(step) end
    step.holds = 0
  elseif step.lost == 'frontier' and not step.repeated then
    change_epoch()
    slot_admission.be_quiet(step)
  end
  if step.membership == 1 and not step.repeated and step.is_limited then
    -- The worker had counted as dead and has forgotten its turns. Release all of them, also for leases that no worker
    -- has reclaimed yet.
    slot_admission.release(pairs_of(redis.call('HGETALL', step.held)), step.worker)
  end
  -- The other workers will find a new frontier. This mark tells them that they have lost data, too.
  if step.lost == 'frontier' and not step.made then redis.call('HSET', META, 'lost', step.now) end
  if not step.made and not step.over then
    slots.restore_lanes()
    groups.restore()
    if slots.keep_blocks() then step.meta.limited, step.is_limited = '1', true end
  end
end

return begin
