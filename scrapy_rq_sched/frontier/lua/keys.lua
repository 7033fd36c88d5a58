-- Needs: helpers
-- The keys have the names of the table in keys/table.py, in capitals; what precedes this is made of it. SEEDS is the
-- list of the seeds' keys. WORKER and LEASES are prefixes, which a worker's name follows. types() returns which type
-- each key must have, but for those that the parts of the queue and of the filter look at. On Redis Cluster all keys
-- are on one slot, because the spider's part of the name is in braces.

-- What this script has done that it tells in the end: entries set aside, and others dropped for them; whether it has
-- set back a lease for another worker, or noted what befell a request; where it has put what was at a slot's key.
local tally = {set_aside = 0, dropped = 0, parked = false, befell = false, garbage = ''}

-- The epoch tells every worker's cache of what was seen whether it still holds. A new one is like none
-- before it, also where Redis has come back with older data: so it is the time, not a counter.
local epoch
local function change_epoch()
  epoch = exact_time()
  redis.call('HSET', META, 'epoch', epoch)
end

-- When its memory is full Redis refuses a script only before the script's first write, and only what
-- could need more. So after this, which writes nothing, what little a script needs goes through.
local function despite_full_memory()
  redis.call('PERSIST', WORKERS)
end
