-- Needs: store/list_queue
-- First in, first out: a list, with pushes at its head and takes at its tail.
local queue = list_queue('RPOP', 'LPOP', 'RPUSH')

return queue
