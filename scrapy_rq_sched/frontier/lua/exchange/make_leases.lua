-- Needs: keys, fleet/crawl, slots/in_slots, store/seeds, store/leases, store/histories, store/groups, store/pools, store/pool_items, exchange/header, exchange/admission
-- Turn requests and seeds into leases of this worker.
--
-- step: remembered: whether any request has a history; leases: {lease, value, lease, value, …}, for Redis and for the
-- reply; bytes: their total size; prefix: of their names; second: the time of the exchange; pool_items: '<pool> <item>' -> its
-- contents, for the leases' items
local make_leases = {}

-- Tell the worker an item of a lease.
local function tell_item(step, place, item)
  local pool = pools.of(place)
  step.pool_items = step.pool_items or {}
  step.pool_items[pool .. ' ' .. item] = pool_items.contents(pool, item)
end

function make_leases.hand_out(step, kind, score, deaths, request, slot, begin)
  local handed = step.leases
  local n = #handed
  local lease = step.prefix .. n / 2 + 1
  local item = step.has_pools and kind == 'request' and pools.take(slot, step.worker, lease) or nil
  if item then tell_item(step, slot, item) end
  handed[n + 1] = lease
  handed[n + 2] = leases.value(kind, score, deaths, step.second, request, slot, begin, item)
  step.bytes = step.bytes + #request
end

-- For a repeated exchange: hand out the same leases again.
function make_leases.again(step)
  local held, handed = pairs_of(redis.call('HGETALL', step.held)), step.leases
  table.sort(held, function(a, b) return leases.place(a[1]) < leases.place(b[1]) end)
  for _, lease in ipairs(held) do
    if string.match(lease[1], '^(%d+)%.') == tostring(header.exchange) then
      local kind, score, deaths, request, slot, begin, item = leases.read(lease[2])
      if item then tell_item(step, slot, item) end
      handed[#handed + 1] = lease[1]
      handed[#handed + 1] = leases.value(kind, score, deaths, step.second, request, slot, begin, item)
    end
  end
end

-- The entry if no request has a history, so that no rule is asked. The number is text, because it becomes part of a text.
local UNASKED = {deaths = '0'}

-- -> the entry for the rules of admission; nil if another worker has finished the request after all
function make_leases.entry_of(step, request, place)
  if not step.remembered then return UNASKED end
  local deaths, history = histories.deaths(request)
  if histories.count(history, 'done') == 0 then
    return {request = request, place = place, deaths = deaths, history = history}
  end
  redis.call('HDEL', HISTORY, redis.sha1hex(request))
  groups.released(request)
end

-- Hand out an entry that the rules of admission permit.
function make_leases.give(step, kind, score, entry, request, slot, begin)
  if step.remembered then admission.admitted(step, entry) end
  if not seeds.kinds[kind] then step.want = step.want - 1 end
  make_leases.hand_out(step, kind, score, entry.deaths, request, slot, begin)
end

-- Hand the request out, or skip it if it is done. -> nil; or from when to ask again, and why: then it is not handed out
function make_leases.admit(step, kind, score, request, slot, begin)
  local entry = make_leases.entry_of(step, request, slot)
  if not entry then return end
  if step.remembered then
    local due, cause = admission.refusal(step, entry)
    if due then return due, cause end
  end
  make_leases.give(step, kind, score, entry, request, slot, begin)
end

-- A late worker has found work. If no crawl goes on, a crawl begins with it.
local function begin_late(step)
  redis.call('HDEL', step.own, 'over')
  if redis.call('HEXISTS', META, 'began') == 1 then return end
  step.meta.pages, step.meta.going_since = '0', step.now
  redis.call('HSET', META, 'pages', 0)
  crawl.begin(step.worker, step.now)
end

local function hold(step)
  in_chunks(step.leases, function(...) redis.call('HSET', step.held, ...) end)
  if #step.leases == 0 then return end
  if step.meta.finished or step.has_rare then crawl.withdraw_finish() end
  if step.before.over then begin_late(step) end
end

-- Hand out leases in several phases, and hold them even if a phase fails: their requests have left the queues. By now the
-- number of the exchange is noted, so the worker repeats it after the error, and gets these leases.
-- -> nil, or the error
function make_leases.hand_out_all(step, phases)
  step.remembered = (step.has_rare or tally.befell) and redis.call('EXISTS', HISTORY) == 1
  local failure
  for _, phase in ipairs(phases) do
    local is_done, problem = pcall(phase, step)
    if not is_done then
      failure = redis.error_reply(type(problem) == 'table' and problem.err or tostring(problem))
      break
    end
  end
  hold(step)
  if failure then
    flush()
    in_slots.write()
  end
  return failure
end

return make_leases
