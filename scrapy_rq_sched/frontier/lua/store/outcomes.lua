-- Needs: keys
-- What became of the latest requests: a ring of records of 16 bytes, which codec/outcomes.py makes and reads.
--
-- OUTCOMES, a string: the first 16 bytes have how many records were ever written, as decimal digits with spaces before
-- them; the records follow, each in the place of an older one once all places are taken.
local outcomes = {}
local SIZE = 16
-- For how many seconds the key is kept after the last record.
local FOR = 30 * 86400

-- Write *records*, a text. most: how many records are kept. This is optional: a user may lack the rights to it.
function outcomes.note(records, most)
  local head = redis.pcall('GETRANGE', OUTCOMES, 0, SIZE - 1)
  if has_failed(head) then return end
  local written = tonumber(head) or 0
  local n = math.floor(#records / SIZE)
  local first = math.max(0, n - most)
  while first < n do
    local place = (written + first) % most
    local some = math.min(n - first, most - place)
    local part = some == n and records or string.sub(records, first * SIZE + 1, (first + some) * SIZE)
    if has_failed(redis.pcall('SETRANGE', OUTCOMES, (1 + place) * SIZE, part)) then return end
    first = first + some
  end
  redis.call('SETRANGE', OUTCOMES, 0, string.format('%16.0f', written + n))
  redis.call('EXPIRE', OUTCOMES, FOR)
end

return outcomes -- seldom used
