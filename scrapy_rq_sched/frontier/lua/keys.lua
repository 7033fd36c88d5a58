-- The keys, in the order of Keys.all() in keys.py; its table says what each holds.
-- The fleet's hashes are named by a prefix and a worker. On Redis Cluster all of them are on one
-- slot, because the spider's part of the name is in braces.
local REQUESTS, COUNTER, DUPEFILTER = KEYS[1], KEYS[2], KEYS[3]
local STARTED, DELAYED, WORKERS, WORKER, LEASES = KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local HISTORY, FAILED, META, FINISHED = KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local PAGES, EXPORTED = KEYS[13], KEYS[14]
local SEEDS = {unpack(KEYS, 15)}

-- ARGV is read from the front, one value after the other.
local next_argument = 0
local function argument()
  next_argument = next_argument + 1
  return ARGV[next_argument]
end
local function number()
  return tonumber(argument())
end

-- -> where the next *n* arguments begin in ARGV, which counts them as read: for what is read most often
local function arguments(n)
  next_argument = next_argument + n
  return next_argument - n + 1
end

-- -> {name = value, …} of the fields of a hash; a field that is not there is nil
local function fields_of(key, names)
  local values, named = redis.call('HMGET', key, unpack(names)), {}
  for i = 1, #names do
    if values[i] then named[names[i]] = values[i] end
  end
  return named
end

-- Call *use* with the values of *list*, so many at a time: Lua passes some thousands at the most.
local function in_chunks(list, use)
  for first = 1, #list, 1000 do
    use(unpack(list, first, math.min(first + 999, #list)))
  end
end

-- The server's time in milliseconds: workers' clocks are never asked.
local function server_time()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The same in microseconds, which tell what was before what: no two scripts run in one.
local function exact_time()
  local time = redis.call('TIME')
  return string.format('%d%06d', time[1], time[2])
end

-- The epoch tells every worker's cache of what was seen whether it still holds. A new one is like none
-- before it, also where Redis has come back with older data: so it is the time, not a counter.
local function change_epoch()
  redis.call('HSET', META, 'epoch', exact_time())
end

-- -> nil, or {key, its type, the type it should have} of the first pair whose key has a wrong one
local function wrong_type(pairs_of_key_and_type)
  for _, pair in ipairs(pairs_of_key_and_type) do
    local kind = redis.call('TYPE', pair[1])['ok']
    if kind ~= 'none' and kind ~= pair[2] then return {pair[1], kind, pair[2]} end
  end
end
local function wrong_type_error(problem)
  if problem[3] == 'none' then
    return redis.error_reply(string.format(
      "WRONGTYPE What was seen is kept by CompactDupeFilter at '%s', and not by this worker's filter. Set its "
      .. "DUPEFILTER_CLASS or its SCHEDULER_DUPEFILTER_KEY otherwise", DUPEFILTER))
  end
  return redis.error_reply(string.format(
    "WRONGTYPE Key '%s' is a %s, where the frontier needs a %s. Rename or delete it", unpack(problem)))
end
local TYPES = {
  {COUNTER, 'string'}, {STARTED, 'set'}, {DELAYED, 'zset'}, {WORKERS, 'zset'},
  {HISTORY, 'hash'}, {FAILED, 'list'}, {META, 'hash'}, {FINISHED, 'string'}, {PAGES, 'list'},
  {EXPORTED, 'list'},
}

-- When its memory is full Redis refuses a script only before the script's first write, and only what
-- could need more. So after this, which writes nothing, what little a script needs goes through.
local function despite_full_memory()
  redis.call('PERSIST', WORKERS)
end
