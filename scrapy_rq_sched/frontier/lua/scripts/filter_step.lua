-- Needs: keys, store/seen, filter
-- Query or change the filter outside an exchange.
--
-- ARGV  'has', 'add', 'remove', 'clear' or 'sweep'; fingerprint
-- Reply 1 or 0. has: the fingerprint is there; add: it was new; remove: it was there; clear: always 0; sweep: there is
--       more to sweep
local operation, fingerprint = argument(), argument()
local problem = wrong_type(filter.types())
if problem then return wrong_type_error(problem) end
local reply = 0
if operation == 'has' then reply = filter.has(fingerprint) and 1 or 0 end
if operation == 'add' then reply = filter.add(fingerprint) and 1 or 0 end
if operation == 'remove' then reply = filter.remove(fingerprint) and 1 or 0 end
if operation == 'clear' then seen.clear() end
if operation == 'sweep' then reply = seen.sweep(1000) and 1 or 0 end
if operation == 'add' or operation == 'remove' then flush() end
return reply
