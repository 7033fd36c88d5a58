-- What every script may use: how it reads ARGV, what it does with the keys of others, the time.

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

-- -> {{name, value}, …} of what HGETALL gives
local function pairs_of(flat)
  local result = {}
  for i = 1, #flat, 2 do result[#result + 1] = {flat[i], flat[i + 1]} end
  return result
end

-- Call *use* with the values of *list*, so many at a time: Lua passes some thousands at the most. If *first* and
-- *last* are given, only with those.
local function in_chunks(list, use, first, last)
  last = last or #list
  for from = first or 1, last, 1000 do
    use(unpack(list, from, math.min(from + 999, last)))
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

-- Is this reply of redis.pcall an error?
local function has_failed(reply)
  return type(reply) == 'table' and reply.err
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
      "WRONGTYPE The fingerprints at '%s' are stored by CompactDupeFilter, but this worker uses another dupefilter. "
      .. "Set its DUPEFILTER_CLASS to scrapy_rq_sched.CompactDupeFilter, or its SCHEDULER_DUPEFILTER_KEY to another "
      .. "key", (string.gsub(problem[1], ':buckets$', ''))))
  end
  return redis.error_reply(string.format(
    "WRONGTYPE Key '%s' is a %s, but the frontier needs a %s there. Rename or delete the key", unpack(problem)))
end

-- A module that most calls do without is made when something of it is first used.
local function seldom(make)
  return setmetatable({}, {__index = function(module, name)
    local made = make()
    setmetatable(module, {__index = made})
    return made[name]
  end})
end
