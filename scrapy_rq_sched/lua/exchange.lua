-- One exchange between a worker and the frontier.
--
-- ARGV  worker, exchange (its number, from 1), lease timeout (ms), busy (0/1), requests wanted,
--       seeds wanted, suspects in hand, leases in hand after this, deaths allowed,
--       n, then n times: mode, fingerprint, -priority, request   requests to push
--       n, then n leases    finished
--       n, then n leases    to give back to where they stood
--       n, then n times: lease, reason    whose callback this worker does not know
--       n, then n times: lease, reason    to set aside
--       n, then n times: mode, fingerprint    to forget: marked for a request that was not crawled
-- Modes: 'filter' (unless seen), 'force' (always), 'start' (unless this crawl had it as a start
--       request), 'start+filter'. An empty request is one that the worker keeps in its memory: it
--       is marked, not pushed.
-- Reply {lost, epoch, duplicates, waiting, delayed, seeds, workers, leased, finished,
--        returned, set aside, note, leases}
--       lost: this worker was given up for dead; duplicates: places, from 1, of the pushes that
--       were; leased: -1 unless counted; leases: lease, kind, deaths, request, lease, …
--
-- Applied twice is applied once: an exchange whose number is not new changes nothing of what it
-- says, and gives the same duplicates and leases again.
-- Everything that can fail by a key of the wrong type fails before the first write.
local worker, exchange, lease_ms = argument(), number(), number()
local busy, wanted, seeds_wanted = argument(), number(), number()
local suspects, in_hand, deaths_allowed = number(), number(), number()

local waiting = queue_length()
redis.call('SCARD', DUPEFILTER); redis.call('SCARD', STARTED); redis.call('ZCARD', DELAYED)
redis.call('LLEN', FAILED); redis.call('HLEN', HISTORY); redis.call('GET', COUNTER)
local made = redis.call('HLEN', META) > 0
local seeds_are = seed_type()
local now = server_time()
local held, own = LEASES .. worker, WORKER .. worker

-- The first write is one that Redis refuses when its memory is full: then nothing has happened yet.
local deadline = tonumber(redis.call('ZSCORE', WORKERS, worker))
local nobody = redis.call('ZCOUNT', WORKERS, '(' .. now, '+inf') == 0
redis.call('ZADD', WORKERS, now + lease_ms, worker)
if deadline and nobody then
  -- Nobody got through in time: Redis was away. All get as long again before they count as dead.
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '-inf', now)) do
    redis.call('ZADD', WORKERS, now + lease_ms, name)
  end
end
local state = redis.call('HMGET', own, 'exchange', 'duplicates', 'reclaimed', 'lost', 'over')
local last = tonumber(state[1])
local repeated = last and exchange <= last
local lost = (state[3] or (exchange > 1 and not last)) and 1 or 0
if repeated and state[4] == '1' then lost = 1 end
-- The crawl was finished and cleared without this worker: what it still finds was crawled before, and
-- until it holds nothing more of that crawl it is given nothing of another.
local over = lost == 1 and not made and redis.call('EXISTS', FINISHED) == 1
over = over or state[5] == '1'
if over then wanted, seeds_wanted = 0, 0 end
-- Redis has come back with older data: nobody's cache of what was seen holds any more.
if made and last and last < exchange - 1 then redis.call('HINCRBY', META, 'epoch', 1) end

-- Children before parents: what is pushed is stored before any lease is released.
local pushes, duplicates, new_ones = {}, {}, false
for i = 1, number() do
  local mode, fingerprint, rank, request = argument(), argument(), number(), argument()
  if not repeated then
    local new = not over
    if new and (mode == 'start' or mode == 'start+filter') then
      new = redis.call('SADD', STARTED, fingerprint) == 1
    end
    if new and (mode == 'filter' or mode == 'start+filter') then
      new = redis.call('SADD', DUPEFILTER, fingerprint) == 1
    end
    new_ones = new_ones or new
    if not new then
      duplicates[#duplicates + 1] = i
    elseif request ~= '' then
      pushes[#pushes + 1] = {rank, request}
    end
  end
end
if #pushes > 0 then queue_push(pushes) end
if new_ones then
  -- A crawl that goes on has not finished, whoever thought so.
  redis.call('PERSIST', STARTED)
  redis.call('DEL', FINISHED)
end

local remembered = redis.call('EXISTS', HISTORY) == 1
for _ = 1, number() do
  local lease = argument()
  if not repeated then
    local value = remembered and redis.call('HGET', held, lease)
    if value then
      local _, _, _, request = lease_read(value)
      redis.call('HDEL', HISTORY, redis.sha1hex(request))
    end
    redis.call('HDEL', held, lease)
  end
end

-- A lease of ours that is no longer there was reclaimed: it is another's now.
local function release(lease)
  local value = not repeated and redis.call('HGET', held, lease)
  if value then redis.call('HDEL', held, lease) end
  return value
end

local given_back = {}
for _ = 1, number() do
  local lease = argument()
  local value = release(lease)
  if value then given_back[#given_back + 1] = {lease, value} end
end
put_back(given_back)

-- A callback that nobody alive knows would go round for ever: then, and only then, it is set aside.
local function all_refuse(history)
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '(' .. now, '+inf')) do
    if not string.find(history, 'refused:' .. name .. '@', 1, true) then return false end
  end
  return true
end

local set_aside_count = 0
for _ = 1, number() do
  local lease, reason = argument(), argument()
  local value = release(lease)
  if value then
    local kind, score, _, request = lease_read(value)
    if all_refuse(history_add(request, 'refused', worker, now)) then
      set_aside(kind, request, reason .. ', nor has that of any worker alive', worker, now)
      set_aside_count = set_aside_count + 1
    else
      -- The lease's name keeps two equal requests apart.
      local entry = score .. ' ' .. worker .. '/' .. lease .. ' ' .. request
      redis.call('ZADD', DELAYED, now + 1000, entry)
    end
  end
end

for _ = 1, number() do
  local lease, reason = argument(), argument()
  local value = release(lease)
  if value then
    local kind, _, _, request = lease_read(value)
    set_aside(kind, request, reason, worker, now)
    set_aside_count = set_aside_count + 1
  end
end

local forgotten = 0
for _ = 1, number() do
  local mode, fingerprint = argument(), argument()
  if not repeated then
    if string.find(mode, 'start', 1, true) then
      forgotten = forgotten + redis.call('SREM', STARTED, fingerprint)
    end
    if string.find(mode, 'filter', 1, true) then
      forgotten = forgotten + redis.call('SREM', DUPEFILTER, fingerprint)
    end
  end
end
if made and forgotten > 0 then redis.call('HINCRBY', META, 'epoch', 1) end

-- A worker that holds nothing has no leases: what is here came back with older data of Redis's.
if in_hand == 0 and not repeated and redis.call('EXISTS', held) == 1 then
  local all, orphans = redis.call('HGETALL', held), {}
  for i = 1, #all, 2 do orphans[#orphans + 1] = {all[i], all[i + 1]} end
  redis.call('DEL', held)
  put_back(orphans)
end

if repeated then
  duplicates = state[2]
else
  duplicates = table.concat(duplicates, ' ')
  redis.call('HSET', own, 'exchange', exchange, 'duplicates', duplicates, 'busy', busy, 'lost', lost)
  if over and in_hand == 0 and busy == '0' then
    -- Now it is a worker like any other; what the frontier is made with, the next to join says.
    redis.call('HDEL', own, 'over')
    redis.call('HSETNX', META, 'epoch', string.format('%.0f', now * 1000000))
  elseif over then
    redis.call('HSET', own, 'over', 1)
  end
  redis.call('HDEL', own, 'reclaimed')
end
-- A worker may be stopped for longer than its lease and then repeat an exchange.
redis.call('PEXPIRE', own, math.max(86400000, 10 * lease_ms))

-- The dead: what they held goes back to where it stood, a bounded number at a time.
local returned, note = 0, ''
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '-inf', now, 'LIMIT', 0, 4)) do
  local found, alive = redis.call('HSCAN', LEASES .. dead, 0, 'COUNT', 500)[2], {}
  for i = 1, #found, 2 do
    local kind, _, _, request = lease_read(found[i + 1])
    redis.call('HDEL', LEASES .. dead, found[i])
    local deaths = history_count(history_add(request, 'died', dead, now), 'died')
    if deaths >= deaths_allowed then
      set_aside(kind, request, 'its worker died ' .. deaths .. ' times', dead, now)
      set_aside_count = set_aside_count + 1
    else
      alive[#alive + 1] = {found[i], found[i + 1]}
    end
  end
  put_back(alive)
  returned = returned + #alive
  redis.call('HSET', WORKER .. dead, 'reclaimed', 1, 'busy', 0)
  redis.call('PEXPIRE', WORKER .. dead, math.max(86400000, 10 * lease_ms))
  if redis.call('HLEN', LEASES .. dead) == 0 then redis.call('ZREM', WORKERS, dead) end
  note = note == '' and dead or note .. ' ' .. dead
end

local due = redis.call('ZRANGEBYSCORE', DELAYED, '-inf', now, 'LIMIT', 0, 100)
local due_requests = {}
for i, entry in ipairs(due) do
  local score, request = string.match(entry, '^(%S+) %S+ (.*)$')
  due_requests[i] = {score, request}
  redis.call('ZREM', DELAYED, entry)
end
queue_put_back(due_requests)

-- Hand out: seeds first, they become requests; then a fair share of what waits.
local leases = {}
local function hand_out(kind, score, deaths, request)
  local lease = exchange .. '.' .. (#leases / 4 + 1)
  lease_write(worker, lease, kind, score, deaths, request)
  for _, value in ipairs({lease, kind, deaths, request}) do leases[#leases + 1] = value end
end

waiting = queue_length()
if repeated then
  local all = redis.call('HGETALL', held)
  for i = 1, #all, 2 do
    if string.match(all[i], '^(%d+)%.') == tostring(exchange) then
      local kind, _, deaths, request = lease_read(all[i + 1])
      for _, value in ipairs({all[i], kind, deaths, request}) do leases[#leases + 1] = value end
    end
  end
else
  for _, seed in ipairs(seeds_wanted > 0 and seed_take(seeds_are, seeds_wanted) or {}) do
    hand_out(seed[1], seed[2], 0, seed[3])
  end
  local share = math.max(1, math.ceil(waiting / redis.call('ZCARD', WORKERS)))
  remembered = redis.call('EXISTS', HISTORY) == 1
  local later = {}
  for _, entry in ipairs(wanted > 0 and queue_take(math.min(wanted, share)) or {}) do
    local deaths = remembered and history_count(history_of(entry[2]), 'died') or 0
    -- What has killed twice is given to a worker one at a time, so that what only stood beside it
    -- is not taken for the cause.
    if deaths >= 2 and suspects >= 1 then
      later[#later + 1] = entry
    else
      if deaths >= 2 then suspects = suspects + 1 end
      hand_out('request', entry[1], deaths, entry[2])
    end
  end
  queue_put_back(later)
  waiting = queue_length()
end

-- Finished is a fact about the fleet: nothing anywhere, and nobody who could still add.
local seeds, delayed = seed_count(seeds_are), redis.call('ZCARD', DELAYED)
local leased, finished = -1, 0
if waiting == 0 then
  local others_busy
  leased, others_busy = fleet()
  if leased + delayed + seeds + others_busy == 0 then finished = 1 end
end
if seeds_are ~= 'none' and not SEED_LENGTH[seeds_are] then note = note .. '|' .. seeds_are end

return {
  lost, redis.call('HGET', META, 'epoch') or '', duplicates, waiting, delayed, seeds,
  redis.call('ZCARD', WORKERS), leased, finished, returned, set_aside_count, note, leases,
}
