-- Needs: keys, queue, seeds, filter, leases, put_back, exporting
-- How an exchange begins: whether it is refused, that its worker is alive, and what is known of both.
--
-- said: the header. turn: what is known of this exchange, and what becomes of it.
--   worker, held, own: its name, and the keys of what it holds and of what is known of it
--   now; waiting; made: whether there is a frontier
--   before: what the worker said last; meta: what was known of the crawl; answered: what a repeated exchange was told
--   full_memory: whether Redis has no more
--   has_rare: whether there is any of the keys that a crawl without mishaps does not have
--   repeated: this exchange was applied before; rewound: Redis has come back with older data
--   standing: 1: this worker was given up for dead; 2: all that it held went back, because of older data
--   over: the crawl was finished and cleared without this worker
--   told: '', 'pause', 'drain' or 'stop'; want, want_seeds: how many it is given at most
--   lost: what is gone though no script of ours took it
local said = cjson.decode(argument())
local begin = {}
-- So many entries must have been there for it to be said that they are gone.
local NOTICED = 10

function begin.turn()
  return {
    worker = said.worker, held = LEASES .. said.worker, own = WORKER .. said.worker,
    now = server_time(), want = said.want, want_seeds = said.want_seeds, leases = {},
  }
end

local function has_failed(reply)
  return type(reply) == 'table' and reply.err
end

-- Has any key a wrong type? Those that are mostly there are read; of the others it is asked how many there are.
-- That is half of the calls that it takes to ask each for its type.
local function may_have_wrong_type(turn)
  turn.has_rare = redis.call('EXISTS', DELAYED, HISTORY, FAILED, FINISHED, EXPORTED, SEEN_CLEARED) > 0
  return turn.has_rare or has_failed(redis.pcall('ZCARD', WORKERS)) or has_failed(redis.pcall('HLEN', META))
    or has_failed(redis.pcall('HLEN', turn.own)) or has_failed(redis.pcall('HLEN', turn.held))
    or has_failed(redis.pcall('SCARD', DUPEFILTER)) or has_failed(redis.pcall('SCARD', STARTED))
    or has_failed(redis.pcall('LLEN', PAGES)) or has_failed(redis.pcall('STRLEN', COUNTER))
    or seen.is_wrong()
    or queue.type and redis.call('TYPE', REQUESTS)['ok'] ~= queue.type
end

-- -> nil, or an error: then nothing was changed
function begin.refuse(turn)
  local problem = may_have_wrong_type(turn) and (wrong_type(TYPES) or wrong_type(seen.types)
    or wrong_type({{turn.held, 'hash'}, {turn.own, 'hash'}})
    or queue.type and wrong_type({{REQUESTS, queue.type}}))
  if problem then return wrong_type_error(problem) end
  local converted_from = redis.call('HGET', REQUESTS .. ':converting', 'from')
  if converted_from then
    return redis.error_reply('CONVERTING ' .. (converted_from == 'import' and 'A frontier is being imported here'
      or 'The requests are being converted to another serializer'))
  end
  turn.before = fields_of(turn.own, {'exchange', 'reclaimed', 'over', 'joined', 'pages', 'gone'})
  if turn.before.gone then return redis.error_reply('GONE This worker has left the frontier') end
  turn.waiting = queue.length()
  turn.made = redis.call('HLEN', META) > 0
end

-- A clock that was set back would have the dead live until it is as late again.
local function cut_deadlines(now)
  local latest = now + said.lease_ms
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '(' .. latest, '+inf', 'LIMIT', 0, 100)) do
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
  local was_member = redis.call('ZSCORE', WORKERS, turn.worker)
  local nobody = redis.call('ZCOUNT', WORKERS, '(' .. now, '+inf') == 0
  local beat = redis.pcall('ZADD', WORKERS, deadline, turn.worker)
  turn.full_memory = type(beat) == 'table' and beat.err
  if turn.full_memory then
    if not string.find(turn.full_memory, 'OOM', 1, true) then return beat end
    despite_full_memory()
    redis.call('ZADD', WORKERS, deadline, turn.worker)
  end
  if was_member and nobody then
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
  turn.rewound = last and last < number - 1 or (number > 1 and not last)
  turn.standing = turn.rewound and 2 or before.reclaimed and 1 or 0
  if turn.repeated then
    turn.answered = fields_of(turn.own, {'duplicates', 'stored', 'standing'})
    turn.standing = math.max(turn.standing, tonumber(turn.answered.standing) or 0)
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
  if made and (tonumber(meta.seen) or 0) >= NOTICED and seen.count() == 0 then
    return 'dupefilter ' .. meta.seen
  end
  return ''
end

local ORDERS = {'state', 'stop', 'pages', 'exporting', 'finished', 'waiting', 'seen', 'lost'}
local TOLD = {paused = 'pause', draining = 'drain'}

-- What all workers are told. Who joins after a stop is not meant by it.
function begin.orders(turn)
  turn.meta = fields_of(META, ORDERS)
  turn.lost = what_is_lost(turn)
  turn.told = TOLD[turn.meta.state] or ''
  local joined = tonumber(turn.before.joined)
  if joined and joined < (tonumber(turn.meta.stop) or 0) then turn.told = 'stop' end
  exporting.on = (tonumber(turn.meta.exporting) or 0) > turn.now
  if turn.over or turn.told ~= '' then turn.want, turn.want_seeds = 0, 0 end
end

-- What a worker pushed is gone with the exchanges that are gone: their pages have to be crawled
-- again. Nobody's cache of what was seen holds any more, and no release that it sends.
function begin.rewind(turn)
  if turn.rewound then
    if not turn.over then change_epoch() end
    leases.put_back(pairs_of(redis.call('HGETALL', turn.held)), turn.worker, said.most_failed, turn.now)
    redis.call('DEL', turn.held)
  elseif turn.lost == 'frontier' then
    change_epoch()
  end
  -- The others find it made anew, and have lost as much.
  if turn.lost == 'frontier' and not turn.made then redis.call('HSET', META, 'lost', turn.now) end
end
