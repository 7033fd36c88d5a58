-- Needs: keys
-- The patterns of slots in the settings (FRONTIER_SLOTS). META's field slot_patterns has them, in their order, as
-- SlotPolicy in codec/slot_limits.py writes them: {{glob, literals, delay in milliseconds, jitter, concurrency}, …}. A glob's
-- literals are the texts between its asterisks, as Lua patterns. Patterns are matched when a slot is served, so Redis
-- keeps nothing for a slot that has no requests.
local slot_patterns = {}
local patterns
at_begin(function() patterns = nil end)

local function decoded()
  local text = redis.call('HGET', META, 'slot_patterns')
  local is_read, list = pcall(cjson.decode, text or '[]')
  return is_read and type(list) == 'table' and list or {}
end

-- -> whether *name* consists of the literals in their order, with any text between them. The first place of a literal
-- leaves the most text for the others, so nothing is tried twice.
local function fits(name, literals)
  local n = #literals
  if n == 1 then return string.find(name, '^' .. literals[1] .. '$') ~= nil end
  local _, till = string.find(name, '^' .. literals[1])
  for i = 2, till and n - 1 or 0 do
    _, till = string.find(name, literals[i], till + 1)
    if not till then return false end
  end
  return till and string.find(name, literals[n] .. '$', till + 1) ~= nil
end

-- A pattern applies to the slot's name, and to the same name in Scrapy, which has no escaped characters.
local function find(slot)
  patterns = patterns or decoded()
  if #patterns == 0 then return nil end
  local name = string.lower(slot)
  local unquoted = string.find(name, '%', 1, true)
    and string.gsub(name, '%%(%x%x)', function(hex) return string.char(tonumber(hex, 16)) end)
  for _, pattern in ipairs(patterns) do
    if fits(name, pattern[2]) or unquoted and fits(unquoted, pattern[2]) then
      return pattern[3], pattern[4], pattern[5]
    end
  end
end

-- -> delay, jitter, concurrency of the first pattern that fits a slot; nil if none does, or if somebody has written other
-- text there
function slot_patterns.limits_of(slot)
  local is_valid, delay, jitter, concurrency = pcall(find, slot)
  if is_valid then return delay, jitter, concurrency end
end

-- The patterns in META are others now.
function slot_patterns.forget()
  patterns = nil
end

return slot_patterns -- seldom used
