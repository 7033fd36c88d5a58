-- Needs: keys, fleet/import_target
-- One step of an import: add members to one key.
--
-- ARGV  id, step (its number, from 1), the key's place in KEYS, the end of its name after that key, command, n, then n values
-- Reply {''}; {'lost'}: this import is no longer under way, and nothing was changed
local id, step = argument(), number()
local key, command, n = KEYS[number()] .. argument(), argument(), number()
local done = import_target.step(id, step)
if done then return done end
local before, at = import_target.length(key), arguments(n)
redis.call(command, key, unpack(ARGV, at, at + n - 1))
local after = import_target.length(key)
if after then import_target.count(key, after - before) end
return {''}
