-- Needs: keys, store/seeds
-- The leases of a worker: LEASES..worker, a hash from lease to
-- '<kind> <score> <deaths>@<second>@<slot>#<item>@<begin> <request>'.
-- kind: 'request'; 'drop' for a request to drop, which counts as waiting until it is dropped; for a seed, its kind as
-- in store/seeds.lua.
-- A lease is named '<exchange>.<place>'. A worker never uses a name twice, so a late message can concern only leases
-- that this worker itself was given.
-- item: what the request has of its pool, see store/pools.lua; left out, with its #, if it needs none
-- second: when the lease was handed out; it may be missing if that was not in an exchange. slot and begin (the server's
-- time in milliseconds from which the request may begin) are left out, with their @, if they are '' and 0.
--
-- MAX_BYTES: the maximum size of the requests in one exchange; LATEST: the latest time until which an entry is set back
local leases = {MAX_BYTES = 4 * 1024 * 1024, LATEST = 2 ^ 53}

function leases.value(kind, score, deaths, second, request, slot, begin, item)
  if item then slot = slot .. '#' .. item end
  local place = slot == '' and ' ' or '@' .. slot .. (begin and begin > 0 and '@' .. decimal(begin) .. ' ' or ' ')
  return kind .. ' ' .. score .. ' ' .. deaths .. '@' .. second .. place .. request
end

-- -> kind, score, deaths, request, slot, begin, item. Any other text counts as a request that no worker can read. The worker
-- that takes it sets it aside.
function leases.read(value)
  local kind, score, deaths, slot, request = string.match(value, '^(%l+%d*) (%S+) (%d+)@?%d*@?(%S*) (.*)$')
  local named, begin = string.match(slot or '', '^([^@]*)@?(%S*)$')
  local rank = tonumber(score)
  if not rank or rank ~= rank then return 'request', '0', '0', value, '' end
  if not seeds.kinds[kind] then
    -- The seed is from a key that this worker's settings do not have. It goes back to the first key.
    local type = string.match(kind, '^%l+')
    kind = seeds.length[type] and type or kind == 'drop' and kind or 'request'
  end
  -- Format the number again: Redis may refuse another notation, and after the first write that is too late.
  local place, item = string.match(named, '^([^#]*)#(.+)$')
  return kind, string.format('%.17g', rank), deaths, request, place or named, tonumber(begin) or 0, item
end

-- -> some of the leases at *key*, as {{name, value}, …}: at most *n*; at least one, and then until *bytes* are reached
function leases.some(key, n, bytes)
  local names = redis.call('HRANDFIELD', key, n)
  local chosen = {}
  for i, name in ipairs(names) do
    chosen[i] = name
    bytes = bytes - redis.call('HSTRLEN', key, name)
    if bytes <= 0 then break end
  end
  local found = {}
  for i, value in ipairs(#chosen > 0 and redis.call('HMGET', key, unpack(chosen)) or {}) do
    found[i] = {chosen[i], value}
  end
  return found
end

-- -> a number that orders leases as they were handed out. A worker begins them in this order, except the leases that it
-- reports as passed over.
function leases.place(name)
  local exchange, position = string.match(name, '^(%d+)%.(%d+)$')
  return (tonumber(exchange) or 0) * 100000 + (tonumber(position) or 0)
end

-- Set a request back until *due*, a time in milliseconds; *cause*: of the rule of admission. The name, which may be a
-- lease's, keeps two equal requests apart. An entry is '<kind> <score> <name>~<cause>@<slot> <request>', without the slot if
-- it is ''. An older version has written no cause.
function leases.park(kind, score, name, request, slot, due, cause)
  tally.parked = true
  local place = slot == '' and ' ' or '@' .. slot .. ' '
  redis.call('ZADD', DELAYED, math.ceil(math.min(due, leases.LATEST)), kind .. ' ' .. score .. ' ' .. name .. '~' .. cause .. place .. request)
end

-- -> kind, score, request, slot, cause of an entry that was set back
function leases.parked(entry)
  local kind, score, name, slot, request = string.match(entry, '^(%l+%d*) (%S+) ([^ @]+)@?(%S*) (.*)$')
  local _
  kind, score, _, request = leases.read(kind and kind .. ' ' .. score .. ' 0 ' .. request or entry)
  return kind, score, request, slot or '', string.match(name or '', '~(%l+)$')
end

return leases
