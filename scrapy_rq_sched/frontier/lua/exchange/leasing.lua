-- Needs: keys, queue, seeds, leases, histories, exporting, exchange/said, exchange/gates
-- What goes down: seeds first, they become requests; then a fair share of what waits.
--
-- turn: leases: lease, value, lease, value, …, for Redis and for the worker; bytes: how large they are together
-- prefix: of their names; second: since when they are held
local leasing = {}
-- Of those that are set back for another worker, so many are looked at; of those that wait, so many are passed over.
local PARKED, PASSED_OVER = 50, 1000

function leasing.prepare(turn)
  turn.remembered = (turn.has_rare or tally.befell) and redis.call('EXISTS', HISTORY) == 1
  turn.gates = gates.closed(turn)
  turn.is_gated = #turn.gates > 0
end

local function hand_out(turn, kind, score, deaths, request)
  local handed = turn.leases
  local n = #handed
  handed[n + 1] = turn.prefix .. n / 2 + 1
  handed[n + 2] = leases.value(kind, score, deaths, turn.second, request)
  turn.bytes = turn.bytes + #request
end

-- The same leases as before.
function leasing.again(turn)
  local held, handed = pairs_of(redis.call('HGETALL', turn.held)), turn.leases
  table.sort(held, function(a, b) return leases.place(a[1]) < leases.place(b[1]) end)
  for _, lease in ipairs(held) do
    if string.match(lease[1], '^(%d+)%.') == tostring(said.exchange) then
      local kind, score, deaths, request = leases.read(lease[2])
      handed[#handed + 1], handed[#handed + 2] = lease[1], leases.value(kind, score, deaths, turn.second, request)
    end
  end
end

-- Where no gate asks for more; as text, for that is what becomes of it.
local UNASKED = {deaths = '0'}

-- -> the entry, as the gates take it; nil if it is done already
local function entry_of(turn, request)
  if not turn.remembered then
    return turn.is_gated and {request = request, deaths = 0, history = ''} or UNASKED
  end
  local deaths, history = histories.deaths(request)
  if histories.count(history, 'done') == 0 then
    return {request = request, deaths = deaths, history = history}
  end
  redis.call('HDEL', HISTORY, redis.sha1hex(request))
end

-- A few at a time, for they may be large: as much is taken as fits into an exchange, and at least one.
function leasing.seeds(turn)
  local later, left = {}, turn.want_seeds
  while left > 0 and turn.bytes < leases.MAX_BYTES do
    local taken = seeds.take(math.min(left, 10))
    if #taken == 0 then break end
    left = left - #taken
    for _, seed in ipairs(taken) do
      local entry = entry_of(turn, seed[3])
      if entry and (turn.bytes >= leases.MAX_BYTES or turn.is_gated and not gates.admit(turn, entry, true)) then
        later[#later + 1] = seed
      elseif entry then
        hand_out(turn, seed[1], seed[2], entry.deaths, seed[3])
      end
    end
  end
  for i = #later, 1, -1 do seeds.put_back(unpack(later[i])) end
end

function leasing.share(turn)
  turn.delayed = (turn.has_rare or tally.parked) and redis.call('ZCARD', DELAYED) or 0
  turn.want = math.min(turn.want, math.max(1, math.ceil((queue.length() + turn.delayed) / turn.workers)))
end

-- -> whether that is all there is to do with it; else it is not for this worker
local function admit(turn, kind, score, request)
  local entry = entry_of(turn, request)
  if not entry then return true end
  if turn.is_gated and not gates.admit(turn, entry) then return false end
  if not seeds.kinds[kind] then turn.want = turn.want - 1 end
  hand_out(turn, kind, score, entry.deaths, request)
  return true
end

-- What was set back for another worker comes first: it stood there first.
function leasing.delayed(turn)
  if turn.delayed == 0 or turn.want + turn.want_seeds <= 0 then return end
  local passed, now = {}, turn.now
  for _, entry in ipairs(redis.call('ZRANGEBYSCORE', DELAYED, '-inf', now, 'LIMIT', 0, PARKED)) do
    local kind, score, request = leases.parked(entry)
    local wanted = seeds.kinds[kind] and turn.want_seeds or turn.want
    if wanted > 0 and turn.bytes < leases.MAX_BYTES and admit(turn, kind, score, request) then
      redis.call('ZREM', DELAYED, entry)
      exporting.note({leases.value(kind, score, 0, turn.second, request)}, now)
    else
      passed[#passed + 1] = entry
    end
  end
  if #passed < PARKED then return end
  -- What else is set back stands behind these: they make room for a moment.
  for _, entry in ipairs(passed) do redis.call('ZADD', DELAYED, now + 1000, entry) end
end

-- What is passed over is set back as well: it must not keep anybody from the rest. Few are taken at first.
function leasing.requests(turn)
  local passed_over, chunk = 0, 1
  while turn.want > 0 and passed_over < PASSED_OVER and turn.bytes < leases.MAX_BYTES do
    local scores, taken = queue.take(math.min(turn.want, chunk))
    if #taken == 0 then break end
    local too_much = {}
    for i, request in ipairs(taken) do
      if turn.bytes >= leases.MAX_BYTES then
        too_much[#too_much + 1] = {scores[i], request}
      elseif not admit(turn, 'request', scores[i], request) then
        passed_over = passed_over + 1
        local name = turn.worker .. '/' .. said.exchange .. '.p' .. passed_over
        leases.park('request', scores[i], name, request, turn.now)
      end
    end
    queue.put_back(too_much)
    chunk = math.min(4 * chunk, PASSED_OVER)
  end
end

-- Too many wait: those that would come last are this worker's, to forget that they were seen.
-- Not while the frontier is exported: who reads a list would miss what moves.
function leasing.drop(turn)
  local bounded = said.policy == 'drop-lowest' and not exporting.on
  local excess = bounded and queue.length() - said.most_waiting or 0
  local scores, dropped = queue.drop(math.min(excess, 1000))
  for i, request in ipairs(dropped) do hand_out(turn, 'drop', scores[i], 0, request) end
end

function leasing.hold(turn)
  in_chunks(turn.leases, function(...) redis.call('HSET', turn.held, ...) end)
  if #turn.leases == 0 then return end
  if turn.meta.finished then redis.call('HDEL', META, 'finished') end
  if turn.before.over then redis.call('HDEL', turn.own, 'over') end
end

return leasing
