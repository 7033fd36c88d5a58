-- Needs: helpers
-- The names of the keys. frontier/scripts generates the code before this comment from keys/table.py: each key
-- has its name from there, in capitals. SEEDS is the list of the seeds' keys. WORKER and LEASES are prefixes, to which
-- a worker's name is appended. types() returns the type that each key must have, except the keys that the modules of
-- the queue and of the filter check. On a Redis Cluster all keys are on one slot, because the spider's name is in
-- braces.

-- Facts that the reply reports. set_aside: entries added to the failed list; dropped: older entries removed from it;
-- parked: a request was set back for another worker; befell: a history was written; garbage: the key to which a value
-- of a wrong type was moved; epoch: the new one, if this script has changed it.
local tally
at_begin(function() tally = {set_aside = 0, dropped = 0, parked = false, befell = false, garbage = '', epoch = nil} end)

-- A worker's cache of fingerprints is valid as long as the epoch is the same. A new epoch must differ from all earlier
-- ones, even after Redis came back with older data. So it is the time, not a counter.
local function change_epoch()
  tally.epoch = exact_time()
  redis.call('HSET', META, 'epoch', tally.epoch)
end

-- Let this script write although Redis is out of memory. Redis refuses a command that could need memory only as the
-- first write of a script. PERSIST counts as a write, but changes nothing here; later commands then succeed.
local function despite_full_memory()
  redis.call('PERSIST', WORKERS)
end
