-- Needs: keys, slots/waiting, slots/in_slots, store/put_back, fleet/import_target
-- One step of an import: put leases and seeds back to their places.
--
-- ARGV  id, step (its number, from 1), n, then n times: '<kind> <score> <deaths>@<second> <request>', in the order in
--       which they will be taken
-- Reply {''}; {'lost'}: this import is no longer under way, and nothing was changed
local id, step, n = argument(), number(), number()
local done = import_target.step(id, step)
if done then return done end
local held, before = {}, waiting.length_of('')
for i = 1, n do held[i] = {'0.' .. i, argument()} end
put_back(held, 'import', 2 ^ 53, server_time())
import_target.count(REQUESTS, waiting.length_of('') - before)
import_target.count(FAILED, tally.set_aside)
in_slots.write()
return {''}
