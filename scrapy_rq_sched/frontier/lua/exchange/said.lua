-- Needs: helpers
-- The worker's message: the header, with the fields of Batch in messages.py, and the lists after it.
-- said.first: for each list, the index in ARGV before its first value. The header has the lists' lengths.
local said = cjson.decode(ARGV[1])
local at = 1

local function list(length, width)
  local before = at
  at = at + (length or 0) * width
  return before
end

said.first = {
  fingerprints = list(said.pushes, 1), payloads = list(said.pushes, 1), finished = list(said.finished, 1),
  given_back = list(said.given_back, 1), refused = list(said.refused, 2), failed = list(said.failed, 4),
  forgotten = list(said.forgotten, 2),
}

return said
