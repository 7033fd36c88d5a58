-- The keys, in the order of Keys.all() in keys.py; its table says what each holds.
-- The fleet's hashes are named by a prefix and a worker. On Redis Cluster all of them are on one
-- slot if the spider's part of the name is in braces.
local REQUESTS, COUNTER, DUPEFILTER, SEEDS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local STARTED, DELAYED, WORKERS, WORKER, LEASES = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local HISTORY, FAILED, META, FINISHED = KEYS[10], KEYS[11], KEYS[12], KEYS[13]

-- ARGV is read from the front, one value after the other.
local next_argument = 0
local function argument()
  next_argument = next_argument + 1
  return ARGV[next_argument]
end
local function number()
  return tonumber(argument())
end

-- The server's time in milliseconds: workers' clocks are never asked.
local function server_time()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
