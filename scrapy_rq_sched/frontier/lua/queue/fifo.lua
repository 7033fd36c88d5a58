-- Needs: list_queue
-- First in, first out: a list, pushed at its head and taken from its tail.
local queue = list_queue('RPOP', 'LPOP', 'RPUSH')

return queue
