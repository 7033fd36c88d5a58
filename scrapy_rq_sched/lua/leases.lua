-- What a worker holds: LEASES..worker, a hash of lease -> '<kind> <score> <deaths>@<second> <request>'.
-- kind is 'request'; 'drop' for a request that is to be dropped, and counts as one that waits until it
-- is; or for a seed its kind, as in seeds.lua.
-- A lease is named '<exchange>.<place>': a worker never uses a name twice, so what a worker says
-- late can only ever concern what it was given itself.
-- second: since when it is held; what was not handed out by an exchange may lack it.

local function lease_value(kind, score, deaths, second, request)
  return kind .. ' ' .. score .. ' ' .. deaths .. '@' .. second .. ' ' .. request
end

-- -> kind, score, deaths, request. What somebody else wrote there is a request that nobody can read:
-- it is set aside when it is taken.
local function lease_read(value)
  local kind, score, deaths, request = string.match(value, '^(%l+%d*) (%S+) (%d+)@?%d* (.*)$')
  local rank = tonumber(score)
  if not rank or rank ~= rank then return 'request', '0', '0', value end
  if not SEED_KINDS[kind] then
    -- From a key that this worker is not set up with: it goes where it is read.
    local type = string.match(kind, '^%l+')
    kind = SEED_LENGTH[type] and type or kind == 'drop' and kind or 'request'
  end
  -- As Lua has read it: what else is in the text, Redis may refuse after the first write.
  return kind, string.format('%.17g', rank), deaths, request
end

-- Whoever exports the frontier while a crawl runs reads what waits and what is held in many steps. What goes from
-- one to the other meanwhile it may not meet in either: so what anybody is through with is noted for him.
local is_exported
local function note_for_export(values, now)
  if is_exported == nil then is_exported = (tonumber(redis.call('HGET', META, 'exporting')) or 0) > now end
  if not is_exported then return end
  in_chunks(values, function(...) redis.call('RPUSH', EXPORTED, ...) end)
  redis.call('PEXPIRE', EXPORTED, 3600000)
end

-- A bounded part of the leases at *key*, as {{name, value}, …}: at least one, and no more than *bytes* go beyond.
local function some_leases(key, n, bytes)
  local names = redis.call('HRANDFIELD', key, n)
  local chosen = {}
  for i, name in ipairs(names) do
    chosen[i] = name
    bytes = bytes - redis.call('HSTRLEN', key, name)
    if bytes <= 0 then break end
  end
  local leases = {}
  for i, value in ipairs(#chosen > 0 and redis.call('HMGET', key, unpack(chosen)) or {}) do
    leases[i] = {chosen[i], value}
  end
  return leases
end

-- Leases are named in the order in which they were handed out, and a worker begins them in that order.
local function lease_place(name)
  local exchange, position = string.match(name, '^(%d+)%.(%d+)$')
  return (tonumber(exchange) or 0) * 100000 + (tonumber(position) or 0)
end

-- What befell a request that came back, each with '<worker>@<second>': 'died:' (its worker died after it said that
-- it had begun it), 'unbegun:' (its worker died before it said so), 'refused:' (its worker lacks code for it), 'done:'
-- (a worker that had been given up for dead has finished it after all).
local function history_of(request)
  return redis.call('HGET', HISTORY, redis.sha1hex(request)) or ''
end

local function history_count(history, what)
  local _, count = string.gsub(' ' .. history, ' ' .. what .. ':', '')
  return count
end

local function history_add(request, what, worker, time)
  local history = history_of(request)
  -- A worker refuses for one reason, however often it is asked. And where it held several equal requests,
  -- they have one history, and its death is one death.
  local entry = string.format('%s:%s@%.3f', what, worker, time / 1000)
  local known = what == 'refused' and 'refused:' .. worker .. '@' or entry .. ' '
  if string.find(history .. ' ', known, 1, true) then return history end
  history = history == '' and entry or history .. ' ' .. entry
  redis.call('HSET', HISTORY, redis.sha1hex(request), history)
  return history
end

-- The characters of UTF-8 that are not ASCII. What is left where all of them are taken out is ASCII, or no text: a
-- pass a kind of character, because to go from character to character takes Redis seconds for ten megabytes.
local UTF8 = {
  '[\225-\236\238\239][\128-\191][\128-\191]', '[\194-\223][\128-\191]',
  '\224[\160-\191][\128-\191]', '\237[\128-\159][\128-\191]',
  '\240[\144-\191][\128-\191][\128-\191]', '[\241-\243][\128-\191][\128-\191][\128-\191]',
  '\244[\128-\143][\128-\191][\128-\191]',
}
local function is_text(data)
  for _, pattern in ipairs(UTF8) do
    if not string.find(data, '[\128-\255]') then return true end
    -- A space in its place: what stood on both sides must not become a character.
    data = string.gsub(data, pattern, ' ')
  end
  return not string.find(data, '[\128-\255]')
end

-- Set aside what the lease {name, value} of *worker* is for: nobody takes it again by itself.
-- deliveries: how often it was handed out, besides those times that its history tells of.
local failed_now, failed_dropped = 0, 0
local function set_aside(worker, lease, reason, traceback, deliveries, most, now)
  local kind, score, _, request = lease_read(lease[2])
  local history = history_of(request)
  local deaths = history_count(history, 'died')
  local entry = {
    id = worker .. '/' .. lease[1], kind = SEED_KINDS[kind] and 'seed' or 'request', score = score,
    reason = reason, time = math.floor(now / 1000), worker = worker, deaths = deaths,
    deliveries = deaths + history_count(history, 'unbegun') + history_count(history, 'refused') + deliveries,
    history = history,
  }
  if traceback ~= '' then entry.traceback = traceback end
  if SEED_KINDS[kind] then entry.key_type = kind end
  if is_text(request) then
    entry.data = request
  else
    -- JSON has no bytes: data_hex is two digits a byte.
    local digits = {}
    for byte = 0, 255 do digits[string.char(byte)] = string.format('%02x', byte) end
    entry.data_hex = string.gsub(request, '.', digits)
  end
  redis.call('HDEL', HISTORY, redis.sha1hex(request))
  local length = redis.call('RPUSH', FAILED, cjson.encode(entry))
  failed_now = failed_now + 1
  if length > most then
    redis.call('LTRIM', FAILED, length - most, -1)
    failed_dropped = failed_dropped + length - most
  end
end

-- Put {lease, value} pairs back to where they stood.
local function put_back(held, worker, most, now)
  if #held == 0 then return end
  table.sort(held, function(a, b) return lease_place(a[1]) < lease_place(b[1]) end)
  local requests, values = {}, {}
  for i, pair in ipairs(held) do
    values[i] = pair[2]
    local kind, score, _, request = lease_read(pair[2])
    if not SEED_KINDS[kind] then requests[#requests + 1] = {score, request} end
  end
  -- Seeds are read from the head of their list: the first goes back last.
  for i = #held, 1, -1 do
    local kind, score, _, seed = lease_read(held[i][2])
    if SEED_KINDS[kind] and not seed_put_back(kind, score, seed) then
      set_aside(worker, held[i], 'the key of the seeds is of another type now', '', 0, most, now)
    end
  end
  queue_put_back(requests)
  note_for_export(values, now)
end

local function pairs_of(flat)
  local result = {}
  for i = 1, #flat, 2 do result[#result + 1] = {flat[i], flat[i + 1]} end
  return result
end

-- What every worker that counts a death or a lease of a request must know of it.
-- -> how many of its workers died, whether they had begun it or not; its history
local function deaths_of(request)
  local history = history_of(request)
  return history_count(history, 'died') + history_count(history, 'unbegun'), history
end

-- Does anybody still hold something, or may add something without holding it?
-- -> leased, busy: requests in workers' hands; workers that read start() or have requests of which
-- Redis does not know yet, or never will.
local function fleet()
  local leased, busy = 0, 0
  for _, worker in ipairs(redis.call('ZRANGE', WORKERS, 0, -1)) do
    -- What somebody has put in a worker's place is no worker: it holds nothing.
    local held = redis.pcall('HLEN', LEASES .. worker)
    leased = leased + (type(held) == 'number' and held or 0)
    busy = busy + (redis.pcall('HGET', WORKER .. worker, 'busy') == '1' and 1 or 0)
  end
  return leased, busy
end

-- The same, for a worker that only asks. To go through a thousand workers takes Redis milliseconds: what is known of so
-- many is used again for a moment, unless it would be the end.
local FLEET_AT_A_LOOK, FLEET_KNOWN = 50, 200
local function fleet_lately(now)
  if redis.call('ZCARD', WORKERS) <= FLEET_AT_A_LOOK then return fleet() end
  local at, leased, busy = string.match(redis.call('HGET', META, 'fleet') or '', '^(%d+) (%d+) (%d+)$')
  if at and tonumber(at) <= now and now - at < FLEET_KNOWN and leased + busy > 0 then return tonumber(leased), tonumber(busy) end
  leased, busy = fleet()
  redis.call('HSET', META, 'fleet', string.format('%.0f %d %d', now, leased, busy))
  return leased, busy
end
