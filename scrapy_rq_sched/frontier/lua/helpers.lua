-- Helpers for all scripts: reading ARGV, lists, the time, errors, types of keys.

-- Run *reset* now and at the begin of each later call. As a script, all of this code is made anew for each call. As a
-- function of Redis, it lives on (see frontier/scripts/text.py): then each module resets its state like this.
local resets = {}
local function at_begin(reset)
  resets[#resets + 1] = reset
  reset()
end

-- Return the next argument: ARGV is read from the front, one value after the other.
local next_argument
at_begin(function() next_argument = 0 end)
local function argument()
  next_argument = next_argument + 1
  return ARGV[next_argument]
end
local function number()
  return tonumber(argument())
end

-- -> the index in ARGV of the next *n* arguments, which count as read. Faster than argument() for long lists.
local function arguments(n)
  next_argument = next_argument + n
  return next_argument - n + 1
end

-- Modules collect changes, because one command is faster than many. Each such module adds a function that writes them, and
-- calls it before it reads what they concern. The script calls flush() at its end.
local writers = {}
local function flush()
  for _, write in ipairs(writers) do write() end
end

-- -> {{name, value}, …} for a reply of HGETALL
local function pairs_of(flat)
  local result = {}
  for i = 1, #flat, 2 do result[#result + 1] = {flat[i], flat[i + 1]} end
  return result
end

-- Call *use* with the values of *list*, 1000 at a time, because Lua limits the number of arguments. With *first* and
-- *last*, use only this part of the list.
local function in_chunks(list, use, first, last)
  last = last or #list
  for from = first or 1, last, 1000 do
    use(unpack(list, from, math.min(from + 999, last)))
  end
end

-- -> the server's time when this script first asked: seconds, and microseconds. Workers' clocks are never used.
local started_at
at_begin(function() started_at = nil end)
local function clock()
  started_at = started_at or redis.call('TIME')
  return started_at[1], started_at[2]
end

-- -> the same in milliseconds
local function server_time()
  local seconds, microseconds = clock()
  return seconds * 1000 + math.floor(microseconds / 1000)
end

-- -> the server's time in microseconds, as text. No two scripts run in the same microsecond, so it orders events.
local function exact_time()
  local time = redis.call('TIME')
  return string.format('%d%06d', time[1], time[2])
end

-- -> a number of at least 0 as the text of the nearest whole number, and a time with three decimals. Redis and Lua take many
-- times as long to turn a number into text if it may have a fraction.
local function whole(value)
  return string.format('%d', value + 0.5)
end
local function decimal(value)
  local thousandths = math.max(0, math.floor(1000 * value + 0.5))
  return string.format('%d.%03d', thousandths / 1000, thousandths % 1000)
end

-- -> whether a reply of redis.pcall is an error
local function has_failed(reply)
  return type(reply) == 'table' and reply.err
end

-- -> nil, or {key, its type, the right type} for the first key of a wrong type
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

-- Return a module that *make* creates when it is first used, because most calls do not need it. All such modules have one
-- metatable until then: each call of a script makes these tables anew.
local UNMADE = {__index = function(module, name)
  local made = module[1]()
  setmetatable(module, {__index = made})
  return made[name]
end}
local function seldom(make)
  return setmetatable({make}, UNMADE)
end
