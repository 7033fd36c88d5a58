-- One exchange between a worker and the frontier.
--
-- ARGV  worker, exchange (its number, from 1), lease timeout (ms), busy (0/1), requests wanted,
--       seeds wanted, suspects in hand, leases in hand after this, deaths that make a suspect, deaths
--       allowed,
--       most that may wait (0: any number), policy ('slow', 'drop-lowest'), exceed (0/1: push whatever
--       waits), most that the failed list keeps, pages done since the last exchange,
--       the last request and the last seed that was begun (their leases), closes as finished (0/1),
--       requests found and of these unshared since the last exchange, why they are unshared,
--       n, then n times: mode, fingerprint, -priority, request   requests to push
--       n, then n times: lease, after    finished
--       n, then n leases    to give back to where they stood
--       n, then n times: lease, reason    whose callback or class this worker does not know
--       n, then n times: lease, after, reason, traceback    to set aside
--       n, then n times: mode, fingerprint    to forget: marked for a request that was not crawled
-- Modes: 'filter' (unless seen), 'force' (always), 'start' (unless this crawl had it as a start
--       request), 'start+filter'. An empty request is one that the worker keeps in its memory: it
--       is marked, not pushed.
-- after: how many of these pushes have to be stored before.
-- Reply {standing, epoch, duplicates, stored, full, waiting, delayed, seeds, workers, leased, busy,
--        finished, returned, set aside, dropped from the failed list, note, told, leases}
--       standing: 1: this worker was given up for dead; 2: Redis has come back with older data, and
--       all that this worker held went back; duplicates: places, from 1, of the pushes that were;
--       stored: how many pushes, from the first, are dealt with; full: why not all, or in spite of
--       what they are: 'memory', 'bound', 'exceeded'; leased and busy: -1 unless counted;
--       told: '', 'pause', 'drain' or 'stop', and then nothing is handed out;
--       leases: lease, kind, deaths, request, lease, …
--
-- Applied twice is applied once: an exchange whose number is not new changes nothing of what it
-- says, and gives the same duplicates and leases again. A worker that has left is refused, however late.
-- Everything that can fail by a key of the wrong type fails before the first write.
local worker, exchange, lease_ms = argument(), number(), number()
local busy, wanted, seeds_wanted = argument(), number(), number()
local suspects, in_hand, suspicious, deaths_allowed = number(), number(), number(), number()
local most_waiting, policy, exceed, most_failed = number(), argument(), argument(), number()
local pages = number()
local begun, sown, finishing = argument(), argument(), argument()
local found, unshared, unshared_reason = number(), number(), argument()

-- So many entries must have been there for it to be said that they are gone.
local NOTICED = 10
-- Of cleared filters, so many keys are deleted in each exchange.
local SWEPT = 100

local held, own = LEASES .. worker, WORKER .. worker
local problem = wrong_type(TYPES) or wrong_type(SEEN_TYPES) or wrong_type({{held, 'hash'}, {own, 'hash'}})
  or QUEUE_TYPE and wrong_type({{REQUESTS, QUEUE_TYPE}})
if problem then
  return wrong_type_error(problem)
end
local converted_from = redis.call('HGET', REQUESTS .. ':converting', 'from')
if converted_from then
  return redis.error_reply('CONVERTING ' .. (converted_from == 'import' and 'A frontier is being imported here'
    or 'The requests are being converted to another serializer'))
end
local before = redis.call('HMGET', own, 'exchange', 'duplicates', 'stored', 'standing', 'reclaimed', 'over',
  'joined', 'pages', 'gone')
if before[9] then return redis.error_reply('GONE This worker has left the frontier') end
local waiting = queue_length()
local made = redis.call('HLEN', META) > 0
local now = server_time()

-- The first write is one that Redis refuses when its memory is full. Then nothing is pushed; but
-- whoever is alive stays so, and what is finished makes room.
local deadline = tonumber(redis.call('ZSCORE', WORKERS, worker))
local nobody = redis.call('ZCOUNT', WORKERS, '(' .. now, '+inf') == 0
local beat = redis.pcall('ZADD', WORKERS, now + lease_ms, worker)
local out_of_memory = type(beat) == 'table' and beat.err
if out_of_memory then
  if not string.find(out_of_memory, 'OOM', 1, true) then return beat end
  despite_full_memory()
  redis.call('ZADD', WORKERS, now + lease_ms, worker)
end
if deadline and nobody then
  -- Nobody got through in time: Redis was away. All get as long again before they count as dead.
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '-inf', now)) do
    redis.call('ZADD', WORKERS, now + lease_ms, name)
  end
end
-- A clock that was set back would have the dead live until it is as late again.
for i, name in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '(' .. now + lease_ms, '+inf', 'LIMIT', 0, 100)) do
  local lease = redis.call('TYPE', WORKER .. name)['ok'] == 'hash' and redis.call('HGET', WORKER .. name, 'lease')
  local latest = now + (tonumber(lease or '') or lease_ms)
  if tonumber(redis.call('ZSCORE', WORKERS, name)) > latest then redis.call('ZADD', WORKERS, latest, name) end
end
local last = tonumber(before[1])
local repeated = last and exchange <= last
local rewound = last and last < exchange - 1 or (exchange > 1 and not last)
local standing = rewound and 2 or before[5] and 1 or 0
if repeated then standing = math.max(standing, tonumber(before[4]) or 0) end
-- The crawl was finished and cleared without this worker: what it still finds was crawled before, and
-- until it holds nothing more of that crawl it is given nothing of another.
local over = standing > 0 and not made and redis.call('EXISTS', FINISHED) == 1
over = over or before[6] == '1'
-- What all workers are told. Who joins after a stop is not meant by it.
local orders = redis.call('HMGET', META, 'state', 'stop', 'pages', 'exporting', 'finished', 'waiting', 'seen',
  'lost')
-- What is gone though no script of ours took it: keys that were deleted, evicted, or emptied by somebody else.
local lost = ''
if not over and (not made or rewound and not last and orders[8]) then
  lost = 'frontier'
elseif made and QUEUE_TYPE and waiting == 0 and (tonumber(orders[6]) or 0) >= NOTICED then
  lost = 'requests ' .. orders[6]
elseif made and (tonumber(orders[7]) or 0) >= NOTICED and seen_count() == 0 then
  lost = 'dupefilter ' .. orders[7]
end
local joined = tonumber(before[7])
local told = orders[1] == 'paused' and 'pause' or orders[1] == 'draining' and 'drain' or ''
if joined and joined < (tonumber(orders[2]) or 0) then told = 'stop' end
is_exported = (tonumber(orders[4]) or 0) > now
if over or told ~= '' then wanted, seeds_wanted = 0, 0 end
if rewound then
  -- What this worker pushed is gone with the exchanges that are gone: their pages have to be crawled
  -- again. Nobody's cache of what was seen holds any more, and no release that it sends.
  if not over then change_epoch() end
  put_back(pairs_of(redis.call('HGETALL', held)), worker, most_failed, now)
  redis.call('DEL', held)
elseif lost == 'frontier' then
  change_epoch()
end
-- The others find it made anew, and have lost as much.
if lost == 'frontier' and not made then redis.call('HSET', META, 'lost', now) end

-- Children before parents: what is pushed is stored before any lease is released.
local ranks, requests, duplicates, stored, full, new_ones = {}, {}, {}, 0, '', false
local STARTS, FILTERS = {start = true, ['start+filter'] = true}, {filter = true, ['start+filter'] = true}
local function is_new(mode, fingerprint)
  return not over and (not STARTS[mode] or redis.call('SISMEMBER', STARTED, fingerprint) == 0)
    and (not FILTERS[mode] or not seen_has(fingerprint))
end
local function mark(mode, fingerprint)
  return not over and (not STARTS[mode] or redis.call('SADD', STARTED, fingerprint) == 1)
    and (not FILTERS[mode] or seen_add(fingerprint))
end
local function room()
  if out_of_memory then return 'memory' end
  if most_waiting == 0 or policy ~= 'slow' or waiting + #requests < most_waiting then return end
  return exceed == '1' and 'exceeded' or 'bound'
end
local pushed = number()
local at = arguments(4 * pushed)
for i = 1, pushed do
  -- What finds no room keeps its place, and so does all that comes after it.
  if not repeated and stored == i - 1 then
    local mode, fingerprint, rank, request = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
    local lacks = room()
    if lacks and is_new(mode, fingerprint) then full = lacks end
    if full == '' or full == 'exceeded' then
      local new = mark(mode, fingerprint)
      new_ones = new_ones or new
      if not new then
        duplicates[#duplicates + 1] = i
      elseif request ~= '' then
        ranks[#ranks + 1], requests[#requests + 1] = rank, request
      end
      stored = i
    end
  end
  at = at + 4
end
if full == '' then full = room() or '' end
if full ~= '' then seeds_wanted = 0 end
if #requests > 0 then queue_push(ranks, requests) end
if new_ones then
  -- A crawl that goes on has not finished, whoever thought so.
  redis.call('PERSIST', STARTED)
  redis.call('DEL', FINISHED)
  redis.call('HDEL', META, 'finished')
end

-- A lease of ours that is no longer there was reclaimed: it is another's now.
local kept = 0
local function release(lease, after)
  if repeated then return end
  local value = redis.call('HGET', held, lease)
  if value and after > stored then
    kept = kept + 1
    return
  end
  if value then
    redis.call('HDEL', held, lease)
    note_for_export({value}, now)
  end
  return value
end

local remembered = redis.call('EXISTS', HISTORY) == 1
-- It was given up for dead, and its request went back; but it was only slow, and has finished it after all. Whoever
-- takes the request next leaves it out.
local function note_done(lease)
  local request = redis.call('HGET', own, 'r:' .. lease)
  local history = request and redis.call('HGET', HISTORY, request)
  if not history then return end
  redis.call('HSET', HISTORY, request, string.format('%s done:%s@%.3f', history, worker, now / 1000))
  redis.call('HDEL', own, 'r:' .. lease)
end

local finished_now = {}
local finished_here = number()
at = arguments(2 * finished_here)
for i = at, at + 2 * finished_here - 2, 2 do
  local lease, after = ARGV[i], tonumber(ARGV[i + 1])
  if remembered or is_exported or after > stored then
    local value = release(lease, after)
    if value and remembered then
      local _, _, _, request = lease_read(value)
      redis.call('HDEL', HISTORY, redis.sha1hex(request))
    elseif not value and remembered and not repeated and after <= stored then
      note_done(lease)
    end
  elseif not repeated then
    finished_now[#finished_now + 1] = lease
  end
end
in_chunks(finished_now, function(...) redis.call('HDEL', held, ...) end)

local given_back = {}
for _ = 1, number() do
  local lease = argument()
  local value = release(lease, 0)
  if value then given_back[#given_back + 1] = {lease, value} end
end
put_back(given_back, worker, most_failed, now)

-- What nobody alive can do would go round for ever: then, and only then, it is set aside.
local function all_refuse(history)
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '(' .. now, '+inf')) do
    if not string.find(history, 'refused:' .. name .. '@', 1, true) then return false end
  end
  return true
end

-- Set back for another worker. The lease's name keeps two equal requests apart.
local function park(kind, score, lease, request)
  redis.call('ZADD', DELAYED, now, kind .. ' ' .. score .. ' ' .. lease .. ' ' .. request)
end

for _ = 1, number() do
  local lease, reason = argument(), argument()
  local value = release(lease, 0)
  if value then
    local kind, score, _, request = lease_read(value)
    if all_refuse(history_add(request, 'refused', worker, now)) then
      reason = reason .. ', nor has that of any worker alive'
      set_aside(worker, {lease, value}, reason, '', 0, most_failed, now)
    else
      park(kind, score, worker .. '/' .. lease, request)
    end
  end
end

for _ = 1, number() do
  local lease, after, reason, traceback = argument(), number(), argument(), argument()
  local value = release(lease, after)
  if value then set_aside(worker, {lease, value}, reason, traceback, 1, most_failed, now) end
end

local forgotten = 0
for _ = 1, number() do
  local mode, fingerprint = argument(), argument()
  if not repeated then
    if STARTS[mode] then forgotten = forgotten + redis.call('SREM', STARTED, fingerprint) end
    if FILTERS[mode] and seen_remove(fingerprint) then forgotten = forgotten + 1 end
  end
end
seen_settle()
seen_sweep(SWEPT)
if not over and forgotten > 0 then change_epoch() end

-- A worker that holds nothing has no leases: what is here came back with older data of Redis's.
if in_hand + kept == 0 and not repeated and redis.call('EXISTS', held) == 1 then
  put_back(pairs_of(redis.call('HGETALL', held)), worker, most_failed, now)
  redis.call('DEL', held)
end

if repeated then duplicates, stored = before[2], tonumber(before[3]) or 0 end
if stored < pushed then busy = '1' end
if repeated then
  -- Who was given up for dead meanwhile does not count as busy: it is heard again. An older exchange that comes
  -- so late that nobody waits for it says nothing of now.
  if exchange == last then redis.call('HSET', own, 'busy', busy) end
else
  duplicates = table.concat(duplicates, ' ')
  redis.call('HSET', own, 'exchange', exchange, 'duplicates', duplicates, 'stored', stored, 'busy', busy,
    'standing', standing, 'joined', before[7] or exact_time(), 'heard', now,
    'pages', (tonumber(before[8]) or 0) + pages, 'begun', begun, 'sown', sown, 'lease', lease_ms)
  if unshared > 0 or (unshared_reason ~= '' and found > 0) then
    redis.call('HINCRBY', META, 'found', found)
    redis.call('HINCRBY', META, 'unshared', unshared)
    redis.call('HSET', META, 'unshared_reason', unshared_reason)
  end
  if over and in_hand == 0 and busy == '0' then
    -- Now it is a worker like any other; what the frontier is made with, the next to join says. But it knows nothing
    -- of when its crawl finished, until it has a part in another.
    redis.call('HSET', own, 'over', 0)
    if redis.call('HEXISTS', META, 'epoch') == 0 then change_epoch() end
  elseif over then
    redis.call('HSET', own, 'over', 1)
  end
  redis.call('HDEL', own, 'reclaimed', 'left')
end
-- A worker may be stopped for longer than its lease and then repeat an exchange.
redis.call('PEXPIRE', own, math.max(86400000, 10 * lease_ms))

-- The dead: what they held goes back to where it stood, a bounded number at a time. Who has left, and could
-- not say what became of its leases, has not died of them. Nor of what it had not begun, as far as it has said:
-- that makes a request a suspect, and of a suspect it is said before it is begun.
local RECLAIMED, MEGABYTES = 150, 4 * 1024 * 1024
local returned, note = 0, ''
-- A worker that was itself given up for dead may be about to say that it has finished what another is at by now.
local at_a_time = standing == 1 and 0 or 4
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '-inf', now, 'LIMIT', 0, at_a_time)) do
  if wrong_type({{LEASES .. dead, 'hash'}, {WORKER .. dead, 'hash'}}) then
    -- Somebody has put something else in its place: there is nothing to bring back.
    redis.call('ZREM', WORKERS, dead)
  else
    local alive, died_at = {}, tonumber(redis.call('ZSCORE', WORKERS, dead))
    local said = redis.call('HMGET', WORKER .. dead, 'left', 'begun', 'sown')
    local last_begun, last_sown = lease_place(said[2] or ''), lease_place(said[3] or '')
    for _, lease in ipairs(some_leases(LEASES .. dead, RECLAIMED, MEGABYTES)) do
      local kind, _, _, request = lease_read(lease[2])
      redis.call('HDEL', LEASES .. dead, lease[1])
      local had_begun = lease_place(lease[1]) <= (SEED_KINDS[kind] and last_sown or last_begun)
      local history = said[1] and history_of(request)
        or history_add(request, had_begun and 'died' or 'unbegun', dead, died_at)
      local deaths = history_count(history, 'died')
      if history_count(history, 'done') > 0 then
        redis.call('HDEL', HISTORY, redis.sha1hex(request))
      elseif deaths >= deaths_allowed then
        local reason = 'its worker died ' .. deaths .. ' times'
        set_aside(dead, lease, reason, '', 0, most_failed, now)
      else
        alive[#alive + 1] = lease
        -- If it is only slow, it may finish this one after all.
        if had_begun and not said[1] then
          redis.call('HSET', WORKER .. dead, 'r:' .. lease[1], redis.sha1hex(request))
        end
      end
    end
    put_back(alive, dead, most_failed, now)
    returned = returned + #alive
    redis.call('HSET', WORKER .. dead, 'reclaimed', 1, 'busy', 0)
    redis.call('PEXPIRE', WORKER .. dead, math.max(86400000, 10 * lease_ms))
    if redis.call('HLEN', LEASES .. dead) == 0 then redis.call('ZREM', WORKERS, dead) end
  end
  note = note == '' and dead or note .. ' ' .. dead
end

-- Hand out: seeds first, they become requests; then a fair share of what waits.
local leases, fields = {}, {}
local function tell(lease, kind, deaths, request)
  local n = #leases
  leases[n + 1], leases[n + 2], leases[n + 3], leases[n + 4] = lease, kind, deaths, request
end
local lease_prefix, second = exchange .. '.', math.floor(now / 1000)
local function hand_out(kind, score, deaths, request)
  local lease, n = lease_prefix .. #leases / 4 + 1, #fields
  fields[n + 1], fields[n + 2] = lease, lease_value(kind, score, deaths, second, request)
  tell(lease, kind, deaths, request)
end

if repeated then
  local leases_held = pairs_of(redis.call('HGETALL', held))
  table.sort(leases_held, function(a, b) return lease_place(a[1]) < lease_place(b[1]) end)
  for _, lease in ipairs(leases_held) do
    if string.match(lease[1], '^(%d+)%.') == tostring(exchange) then
      local kind, _, deaths, request = lease_read(lease[2])
      tell(lease[1], kind, deaths, request)
    end
  end
else
  -- -> how many of its workers died; whether another has to do it; whether it is done already
  remembered = redis.call('EXISTS', HISTORY) == 1
  local function look_up(request)
    if not remembered then return 0, false, false end
    local deaths, history = deaths_of(request)
    if history_count(history, 'done') > 0 then
      redis.call('HDEL', HISTORY, redis.sha1hex(request))
      return deaths, false, true
    end
    -- What this worker has refused is for another, as long as there is one that has not.
    local refused = string.find(history, 'refused:' .. worker .. '@', 1, true)
    return deaths, refused and not all_refuse(history), false
  end

  -- A few at a time, for they may be large: as much is taken as fits into an exchange, and at least one.
  local seeds_later, bytes, seeds_left = {}, 0, seeds_wanted
  while seeds_left > 0 and bytes < MEGABYTES do
    local seeds_taken = seed_take(math.min(seeds_left, 10))
    if #seeds_taken == 0 then break end
    seeds_left = seeds_left - #seeds_taken
    for _, seed in ipairs(seeds_taken) do
      local deaths, for_another, done = look_up(seed[3])
      if for_another or bytes >= MEGABYTES then
        seeds_later[#seeds_later + 1] = seed
      elseif not done then
        bytes = bytes + #seed[3]
        hand_out(seed[1], seed[2], deaths, seed[3])
      end
    end
  end
  for i = #seeds_later, 1, -1 do seed_put_back(unpack(seeds_later[i])) end

  local to_share = queue_length() + redis.call('ZCARD', DELAYED)
  local share = math.max(1, math.ceil(to_share / redis.call('ZCARD', WORKERS)))
  local want, passed_over = math.min(wanted, share), 0
  -- -> whether it is this worker's. What has killed often is given to a worker one at a time, so that what only stood
  -- beside it is not taken for the cause.
  local function admit(kind, score, request)
    local deaths, for_another, done = look_up(request)
    if done then return true end
    local suspect = deaths >= suspicious
    if for_another or suspect and suspects >= 1 then return false end
    if suspect then suspects = suspects + 1 end
    if not SEED_KINDS[kind] then want = want - 1 end
    bytes = bytes + #request
    hand_out(kind, score, deaths, request)
    return true
  end

  -- What was set back for another worker comes first: it stood there first.
  local PARKED, passed = 50, {}
  for _, entry in ipairs(want + seeds_wanted > 0 and redis.call('ZRANGEBYSCORE', DELAYED, '-inf', now, 'LIMIT', 0, PARKED) or {}) do
    local kind, score, request = string.match(entry, '^(%l+%d*) (%S+) %S+ (.*)$')
    kind, score, _, request = lease_read(kind and kind .. ' ' .. score .. ' 0 ' .. request or entry)
    if (SEED_KINDS[kind] and seeds_wanted or want) > 0 and bytes < MEGABYTES and admit(kind, score, request) then
      redis.call('ZREM', DELAYED, entry)
      note_for_export({lease_value(kind, score, 0, second, request)}, now)
    else
      passed[#passed + 1] = entry
    end
  end
  if #passed == PARKED then
    -- What else is set back stands behind these: they make room for a moment.
    for _, entry in ipairs(passed) do redis.call('ZADD', DELAYED, now + 1000, entry) end
  end

  -- What is passed over is set back as well: it must not keep anybody from the rest. Few are taken at first.
  local PASSED_OVER, chunk = 1000, 1
  while want > 0 and passed_over < PASSED_OVER and bytes < MEGABYTES do
    local scores, taken = queue_take(math.min(want, chunk))
    if #taken == 0 then break end
    local too_much = {}
    for i, request in ipairs(taken) do
      if bytes >= MEGABYTES then
        too_much[#too_much + 1] = {scores[i], request}
      elseif not admit('request', scores[i], request) then
        passed_over = passed_over + 1
        park('request', scores[i], worker .. '/' .. exchange .. '.p' .. passed_over, request)
      end
    end
    queue_put_back(too_much)
    chunk = math.min(4 * chunk, PASSED_OVER)
  end
  -- Too many wait: those that would come last are this worker's, to forget that they were seen.
  -- Not while the frontier is exported: who reads a list would miss what moves.
  local bounded = policy == 'drop-lowest' and most_waiting > 0 and not is_exported
  local excess = bounded and queue_length() - most_waiting or 0
  local scores, dropped = queue_drop(math.min(excess, 1000))
  for i, request in ipairs(dropped) do hand_out('drop', scores[i], 0, request) end
  in_chunks(fields, function(...) redis.call('HSET', held, ...) end)
  if #leases > 0 then
    if orders[5] then redis.call('HDEL', META, 'finished') end
    if before[6] then redis.call('HDEL', own, 'over') end
  end
end
waiting = queue_length()

-- The latest ten seconds are at the head: a step of the same length however long the crawl is.
if pages > 0 and made and not repeated then
  redis.call('HSET', META, 'pages', (tonumber(orders[3]) or 0) + pages)
  local ten_seconds = second - second % 10
  local latest, done = string.match(redis.call('LINDEX', PAGES, 0) or '', '^(%d+) (%d+)')
  if tonumber(latest) == ten_seconds then
    redis.call('LSET', PAGES, 0, ten_seconds .. ' ' .. done + pages .. ' ' .. waiting)
  else
    redis.call('LPUSH', PAGES, ten_seconds .. ' ' .. pages .. ' ' .. waiting)
    redis.call('LTRIM', PAGES, 0, 360)
  end
end

-- Finished is a fact about the fleet: nothing anywhere, and nobody who could still add.
local seeds, delayed = seed_count(), redis.call('ZCARD', DELAYED)
local leased, others_busy, finished = -1, -1, 0
if waiting == 0 then
  leased, others_busy = fleet_lately(now)
  if leased + delayed + seeds + others_busy == 0 then finished = 1 end
end
if not over then
  redis.call('HSET', META, 'waiting', waiting, 'seen', seen_count())
  -- Of a worker that closes because of it: one that stays open, as a RedisSpider does, waits for more. Who has slept
  -- through the end of its crawl does not know when that was.
  if finished == 1 and finishing == '1' and before[6] ~= '0' then redis.call('HSETNX', META, 'finished', now) end
end
local seeds_problem = seed_problem()
if seeds_problem then seeds_problem = seeds_problem[2] .. ' ' .. seeds_problem[1] end
note = note .. '|' .. lost .. '|' .. (seeds_problem or '')

return {
  standing, redis.call('HGET', META, 'epoch') or '', duplicates, stored, full, waiting, delayed, seeds,
  redis.call('ZCARD', WORKERS), leased, others_busy, finished, returned, failed_now, failed_dropped, note,
  told, leases,
}
