-- Needs: helpers
-- Add *n* to a statistic: a field of a hash. An error would end the script when half of its work is done, so there is
-- none: a field that is not a number begins anew, and a key of another type has no statistics.
local function count_up(key, field, n)
  if has_failed(redis.pcall('HINCRBY', key, field, n)) then redis.pcall('HSET', key, field, n) end
end

return count_up
