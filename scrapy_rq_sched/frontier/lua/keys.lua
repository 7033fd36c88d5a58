-- Needs: helpers
-- The keys, in the order of Keys.all() in keys.py; its table says what each holds.
-- The fleet's hashes are named by a prefix and a worker. On Redis Cluster all of them are on one
-- slot, because the spider's part of the name is in braces.
local REQUESTS, COUNTER, DUPEFILTER = KEYS[1], KEYS[2], KEYS[3]
local STARTED, DELAYED, WORKERS, WORKER, LEASES = KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local HISTORY, FAILED, META, FINISHED = KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local PAGES, EXPORTED = KEYS[13], KEYS[14]
local SEEDS = {unpack(KEYS, 15)}
local CONVERTING = REQUESTS .. ':converting'
local SEEN_STATE, SEEN_CLEARED = DUPEFILTER .. ':buckets', DUPEFILTER .. ':cleared'
local SEEN_FRONTIERS = DUPEFILTER .. ':frontiers'

-- What this script has done that it tells in the end: entries set aside, and others dropped for them; whether it has
-- set back a lease for another worker, or noted what befell a request.
local tally = {set_aside = 0, dropped = 0, parked = false, befell = false}

-- The epoch tells every worker's cache of what was seen whether it still holds. A new one is like none
-- before it, also where Redis has come back with older data: so it is the time, not a counter.
local epoch
local function change_epoch()
  epoch = exact_time()
  redis.call('HSET', META, 'epoch', epoch)
end

local function types()
  return {
    {COUNTER, 'string'}, {STARTED, 'set'}, {DELAYED, 'zset'}, {WORKERS, 'zset'},
    {HISTORY, 'hash'}, {FAILED, 'list'}, {META, 'hash'}, {FINISHED, 'string'}, {PAGES, 'list'},
    {EXPORTED, 'list'},
  }
end

-- When its memory is full Redis refuses a script only before the script's first write, and only what
-- could need more. So after this, which writes nothing, what little a script needs goes through.
local function despite_full_memory()
  redis.call('PERSIST', WORKERS)
end
