-- Needs: list_queue
-- Last in, first out: a list, pushed at its head and taken from there.
local queue = list_queue('LPOP', 'RPOP', 'LPUSH')

return queue
