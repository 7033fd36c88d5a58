-- Needs: helpers
-- What the worker says: the header, with the fields of Batch in messages.py.
local said = cjson.decode(argument())

return said
