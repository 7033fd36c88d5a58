-- Needs: helpers
-- -> *value* as a number, if it can be a time or a count; else *default*
local function number_of(value, default)
  if not value then return default end
  local number = tonumber(value)
  return number and number == number and number >= 0 and number < 9e15 and number or default
end

return number_of
