-- Needs: helpers
-- The worker's message: the header, with the fields of Batch in frontier/messages.py, and the lists after it.
-- header.first: for each list, the index in ARGV before its first value. The header has the lists' lengths.
local header = cjson.decode(ARGV[1])
local at = 1

local function list(length, width)
  local before = at
  at = at + (length or 0) * width
  return before
end

header.first = {
  fingerprints = list(header.pushes, 1), payloads = list(header.pushes, 1), finished = list(header.finished, 1),
  given_back = list(header.given_back, 1), refused = list(header.refused, 2), failed = list(header.failed, 4),
  forgotten = list(header.forgotten, 2), items = list(header.items, 1), outcomes = list(header.outcomes, 1),
}

return header -- of each call
