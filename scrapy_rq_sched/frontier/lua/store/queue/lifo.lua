-- Needs: store/list_queue
-- Last in, first out: a list, with pushes and takes at its head.
local queue = list_queue('LPOP', 'RPOP', 'LPUSH')

return queue
