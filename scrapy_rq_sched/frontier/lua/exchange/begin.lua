-- Needs: keys, queue, put_back, places, exporting, exchange/said, exchange/limited
-- How an exchange begins: that its worker is alive, which exchange it is, and what its worker is told to do.
--
-- turn: what is known of this exchange, and what becomes of it.
--   worker, held, own: its name, and the keys of what it holds and of what is known of it
--   now; waiting, seen: how many requests wait and fingerprints there are, at first; holds: how many leases the worker has
--   before: what the worker said last; meta: what was known of the crawl; answered: what a repeated exchange was told
--   deadline: when the worker would have been dead; pages: the latest entry of PAGES
--   made: whether there is a frontier; full_memory: whether Redis has no more
--   has_rare: whether there is any of the keys that a crawl without mishaps does not have
--   repeated: this exchange was applied before; rewound: Redis has come back with older data
--   standing: 1: this worker was given up for dead; 2: all that it held went back, because of older data
--   over: the crawl was finished and cleared without this worker
--   told: '', 'wait' (for a place), 'pause', 'drain' or 'stop'; want, want_seeds: how many it is given at most
--   lost: what is gone though no script of ours took it
local begin = {}

-- So many entries must have been there for it to be said that they are gone.
local NOTICED = 10

-- All its fields stand here, so that Lua makes the table once and does not have to enlarge it.
function begin.turn()
  local worker, now = said.worker, server_time()
  return {
    worker = worker, held = LEASES .. worker, own = WORKER .. worker, now = now,
    prefix = said.exchange .. '.', second = tostring(math.floor(now / 1000)), suspects = said.suspects or 0,
    want = said.want, want_seeds = said.want_seeds, delayed = 0, told = '', standing = 0,
    waiting = 0, seen = 0, holds = 0, before = false, meta = false, deadline = false, pages = false, last = false,
    made = false, has_rare = false, full_memory = false, repeated = false, rewound = false, over = false, lost = '',
    duplicates = false, stored = 0, full = '', kept = 0, remembered = false, busy = false, dead = false, returned = 0,
    workers = 0, bytes = 0, passed_over = 0, dropped = 0, leases = {}, gates = false, is_gated = false,
  }
end

-- A clock that was set back would have the dead live until it is as late again.
local function cut_deadlines(now)
  local latest = now + said.lease_ms
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '(' .. latest, '+inf', 'LIMIT', '0', '100')) do
    local is_hash = redis.call('TYPE', WORKER .. name)['ok'] == 'hash'
    local lease = is_hash and redis.call('HGET', WORKER .. name, 'lease')
    local its_latest = now + (tonumber(lease or '') or said.lease_ms)
    if tonumber(redis.call('ZSCORE', WORKERS, name)) > its_latest then
      redis.call('ZADD', WORKERS, its_latest, name)
    end
  end
end

-- The first write is one that Redis refuses when its memory is full. Then nothing is pushed; but
-- whoever is alive stays so, and what is finished makes room.
-- -> nil, or an error: then nothing was changed
function begin.heartbeat(turn)
  local now, deadline = turn.now, turn.now + said.lease_ms
  local was_late = turn.deadline and tonumber(turn.deadline) <= now
  local was_away = was_late and redis.call('ZCOUNT', WORKERS, '(' .. now, '+inf') == 0
  local beat = redis.pcall('ZADD', WORKERS, deadline, turn.worker)
  turn.full_memory = has_failed(beat)
  if turn.full_memory then
    if not string.find(turn.full_memory, 'OOM', 1, true) then return beat end
    despite_full_memory()
    redis.call('ZADD', WORKERS, deadline, turn.worker)
  end
  if was_away then
    -- Nobody got through in time: Redis was away. All get as long again before they count as dead.
    for _, name in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '-inf', now)) do
      redis.call('ZADD', WORKERS, deadline, name)
    end
  end
  cut_deadlines(now)
end

function begin.recognise(turn)
  local before, number = turn.before, said.exchange
  local last = tonumber(before.exchange)
  turn.last = last
  turn.repeated = last and number <= last
  turn.rewound = last and last < number - 1 or number > 1 and not last
  turn.standing = turn.rewound and 2 or before.reclaimed and 1 or 0
  if turn.repeated then
    local answer = redis.call('HGET', turn.own, 'answered') or ''
    local stored, standing, duplicates = string.match(answer, '^(%d+) (%d) ?([%d ]*)$')
    turn.answered = {stored = tonumber(stored) or 0, duplicates = duplicates or ''}
    turn.standing = math.max(turn.standing, tonumber(standing) or 0)
  end
  -- What this worker still finds was crawled before, and until it holds nothing more of that crawl it is given
  -- nothing of another.
  turn.over = turn.standing > 0 and not turn.made and redis.call('EXISTS', FINISHED) == 1 or before.over == '1'
end

-- Keys that were deleted, evicted, or emptied by somebody else.
local function what_is_lost(turn)
  local meta, made = turn.meta, turn.made
  if not turn.over and (not made or turn.rewound and not turn.last and meta.lost) then return 'frontier' end
  if made and queue.type and turn.waiting == 0 and (tonumber(meta.waiting) or 0) >= NOTICED then
    return 'requests ' .. meta.waiting
  end
  if made and turn.seen == 0 and (tonumber(meta.seen) or 0) >= NOTICED then return 'dupefilter ' .. meta.seen end
  return ''
end

local TOLD = {paused = 'pause', draining = 'drain'}

-- What all workers are told. Who joins after a stop is not meant by it.
function begin.orders(turn)
  local meta = turn.meta
  turn.lost = what_is_lost(turn)
  turn.told = TOLD[meta.state] or ''
  -- A worker that was not heard in time may have lost its place to another.
  local most = said.max_workers
  if most and places.take(turn.worker, most, turn.now, said.lease_ms, said.lease_ms) then
    turn.want, turn.want_seeds = 0, 0
    -- What only this worker can add, or has, the others would wait for to no end.
    if not (said.busy and turn.waiting == 0) then turn.told = 'wait' end
  end
  local joined = meta.stop and tonumber(turn.before.joined)
  if joined and joined < (tonumber(meta.stop) or 0) then turn.told = 'stop' end
  exporting.on = meta.exporting and (tonumber(meta.exporting) or 0) > turn.now
  if turn.over or turn.told ~= '' then turn.want, turn.want_seeds = 0, 0 end
end

-- What a worker pushed is gone with the exchanges that are gone: their pages have to be crawled
-- again. Nobody's cache of what was seen holds any more, and no release that it sends.
function begin.rewind(turn)
  if turn.rewound then
    if not turn.over then change_epoch() end
    local held = pairs_of(redis.call('HGETALL', turn.held))
    put_back(held, turn.worker, said.most_failed, turn.now)
    redis.call('DEL', turn.held)
    limited.release(held, turn.worker)
    if not turn.over then limited.be_quiet(turn) end
    turn.holds = 0
  elseif turn.lost == 'frontier' then
    change_epoch()
    limited.be_quiet(turn)
  end
  if turn.standing == 1 and not turn.repeated and limited.is_on(turn) then
    -- The worker was given up for dead, and knows no more of its turns: also of those that nobody has taken over yet.
    limited.release(pairs_of(redis.call('HGETALL', turn.held)), turn.worker)
  end
  -- The others find it made anew, and have lost as much.
  if turn.lost == 'frontier' and not turn.made then redis.call('HSET', META, 'lost', turn.now) end
end

return begin
