-- Needs: keys, seeds
-- What a worker holds: LEASES..worker, a hash of lease -> '<kind> <score> <deaths>@<second>@<slot>@<begin> <request>'.
-- kind is 'request'; 'drop' for a request that is to be dropped, and counts as one that waits until it
-- is; or for a seed its kind, as in seeds.lua.
-- A lease is named '<exchange>.<place>': a worker never uses a name twice, so what a worker says
-- late can only ever concern what it was given itself.
-- second: since when it is held; what was not handed out by an exchange may lack it. slot, and begin, the server's
-- time (milliseconds) from which it may be begun: without their @ if they are '' and 0.
--
-- MAX_BYTES: so many bytes of requests go in one exchange
local leases = {MAX_BYTES = 4 * 1024 * 1024}

function leases.value(kind, score, deaths, second, request, slot, begin)
  local place = slot == '' and ' ' or '@' .. slot .. (begin and begin > 0 and string.format('@%.3f ', begin) or ' ')
  return kind .. ' ' .. score .. ' ' .. deaths .. '@' .. second .. place .. request
end

-- -> kind, score, deaths, request, slot, begin. What somebody else wrote there is a request that nobody can read:
-- it is set aside when it is taken.
function leases.read(value)
  local kind, score, deaths, slot, request = string.match(value, '^(%l+%d*) (%S+) (%d+)@?%d*@?(%S*) (.*)$')
  local named, begin = string.match(slot or '', '^([^@]*)@?(%S*)$')
  local rank = tonumber(score)
  if not rank or rank ~= rank then return 'request', '0', '0', value, '' end
  if not seeds.kinds[kind] then
    -- From a key that this worker is not set up with: it goes where it is read.
    local type = string.match(kind, '^%l+')
    kind = seeds.length[type] and type or kind == 'drop' and kind or 'request'
  end
  -- As Lua has read it: what else is in the text, Redis may refuse after the first write.
  return kind, string.format('%.17g', rank), deaths, request, named, tonumber(begin) or 0
end

-- A bounded part of the leases at *key*, as {{name, value}, …}: at least one, and no more than *bytes* go beyond.
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

-- Leases are named in the order in which they were handed out. A worker begins them in that order, but for those of
-- which it says that it has passed them over.
function leases.place(name)
  local exchange, position = string.match(name, '^(%d+)%.(%d+)$')
  return (tonumber(exchange) or 0) * 100000 + (tonumber(position) or 0)
end

-- Set back for another worker. The lease's name keeps two equal requests apart.
function leases.park(kind, score, lease, request, slot, now)
  tally.parked = true
  local place = slot == '' and ' ' or '@' .. slot .. ' '
  redis.call('ZADD', DELAYED, now, kind .. ' ' .. score .. ' ' .. lease .. place .. request)
end

-- -> kind, score, request, slot of what was set back
function leases.parked(entry)
  local kind, score, slot, request = string.match(entry, '^(%l+%d*) (%S+) [^ @]+@?(%S*) (.*)$')
  local _
  kind, score, _, request = leases.read(kind and kind .. ' ' .. score .. ' 0 ' .. request or entry)
  return kind, score, request, slot or ''
end

return leases
