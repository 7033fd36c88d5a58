-- Needs: helpers
-- Add *n* to a statistic: a field of a hash. An error would end the script when half of its work is done, so there is
-- none: a field that is not a number begins anew, and a key of another type has no statistics. -> the sum
local function count_up(key, field, n)
  local sum = redis.pcall('HINCRBY', key, field, n)
  if not has_failed(sum) then return sum end
  redis.pcall('HSET', key, field, n)
  return n
end

return count_up
