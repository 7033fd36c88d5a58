-- Needs: helpers
-- The header of the worker's message, with the fields of Batch in messages.py.
local said = cjson.decode(argument())

return said
