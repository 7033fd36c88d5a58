-- Needs: keys, events, ending, in_slots, seeds, leases, histories, exchange/said, exchange/admission
-- Turn requests and seeds into leases of this worker.
--
-- turn: leases: {lease, value, lease, value, …}, for Redis and for the reply; bytes: their total size; prefix: of their
-- names; second: the time of the exchange
local handing = {}

local function prepare(turn)
  turn.remembered = (turn.has_rare or tally.befell) and redis.call('EXISTS', HISTORY) == 1
  admission.prepare(turn)
end

function handing.hand_out(turn, kind, score, deaths, request, slot, begin)
  local handed = turn.leases
  local n = #handed
  handed[n + 1] = turn.prefix .. n / 2 + 1
  handed[n + 2] = leases.value(kind, score, deaths, turn.second, request, slot, begin)
  turn.bytes = turn.bytes + #request
end

-- For a repeated exchange: hand out the same leases again.
function handing.again(turn)
  local held, handed = pairs_of(redis.call('HGETALL', turn.held)), turn.leases
  table.sort(held, function(a, b) return leases.place(a[1]) < leases.place(b[1]) end)
  for _, lease in ipairs(held) do
    if string.match(lease[1], '^(%d+)%.') == tostring(said.exchange) then
      local kind, score, deaths, request, slot, begin = leases.read(lease[2])
      handed[#handed + 1] = lease[1]
      handed[#handed + 1] = leases.value(kind, score, deaths, turn.second, request, slot, begin)
    end
  end
end

-- The entry if no rule needs more. The number is text, because it becomes part of a text.
local UNASKED = {deaths = '0'}

-- -> the entry for the rules of admission; nil if another worker has finished the request after all
function handing.entry_of(turn, request)
  if not turn.remembered then
    return #turn.rules > 0 and {request = request, deaths = 0, history = ''} or UNASKED
  end
  local deaths, history = histories.deaths(request)
  if histories.count(history, 'done') == 0 then
    return {request = request, deaths = deaths, history = history}
  end
  redis.call('HDEL', HISTORY, redis.sha1hex(request))
end

-- Hand out an entry that the rules of admission permit.
function handing.give(turn, kind, score, entry, request, slot, begin)
  admission.admitted(turn, entry)
  if not seeds.kinds[kind] then turn.want = turn.want - 1 end
  handing.hand_out(turn, kind, score, entry.deaths, request, slot, begin)
end

-- Hand the request out, or skip it if it is done. -> nil; or from when to ask again, and why: then it is not handed out
function handing.admit(turn, kind, score, request, slot, begin)
  local entry = handing.entry_of(turn, request)
  if not entry then return end
  local due, cause = admission.refusal(turn, entry)
  if due then return due, cause end
  handing.give(turn, kind, score, entry, request, slot, begin)
end

-- A late worker has found work. If no crawl goes on, a crawl begins with it.
local function begin_late(turn)
  redis.call('HDEL', turn.own, 'over')
  if redis.call('HSETNX', META, 'began', turn.now) == 0 then return end
  turn.meta.pages, turn.meta.going_since = '0', turn.now
  redis.call('HSET', META, 'pages', 0, 'going_since', turn.now)
  events.tell('crawl_started', turn.worker)
end

local function hold(turn)
  in_chunks(turn.leases, function(...) redis.call('HSET', turn.held, ...) end)
  if #turn.leases == 0 then return end
  if turn.meta.finished or turn.has_rare then ending.withdraw() end
  if turn.before.over then begin_late(turn) end
end

-- Hand out leases in several steps, and hold them even if a step fails: their requests have left the queues. By now the
-- number of the exchange is noted, so the worker repeats it after the error, and gets these leases.
-- -> nil, or the error
function handing.hand_out_all(turn, steps)
  prepare(turn)
  local failure
  for _, step in ipairs(steps) do
    local is_done, problem = pcall(step, turn)
    if not is_done then
      failure = redis.error_reply(type(problem) == 'table' and problem.err or tostring(problem))
      break
    end
  end
  hold(turn)
  if failure then
    flush()
    in_slots.settle()
  end
  return failure
end

return handing
