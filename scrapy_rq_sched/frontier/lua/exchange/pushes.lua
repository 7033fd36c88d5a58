-- Needs: keys, queue, waiting, leases, clearing, seen, filter, ending, exchange/said, exchange/admission
-- Store the requests that the worker has found, and forget fingerprints of requests that it did not crawl after all.
--
-- turn: duplicates: places, from 1, of the pushes that were duplicates; stored: how many pushes, from the first, were
-- stored or dropped; full: why there is no room: 'memory', 'bound'; or 'exceeded', if pushes were stored anyway
local STARTS, FILTERS = {start = true, ['start+filter'] = true}, {filter = true, ['start+filter'] = true}
local ARGV = ARGV
-- How many keys of cleared filters and slots each exchange deletes.
local SWEPT = 100
local pushes = {}

local function is_new(mode, fingerprint)
  return (not STARTS[mode] or redis.call('SISMEMBER', STARTED, fingerprint) == 0)
    and (not FILTERS[mode] or not filter.has(fingerprint))
end

local function mark(mode, fingerprint)
  return (not STARTS[mode] or redis.call('SADD', STARTED, fingerprint) == 1)
    and (not FILTERS[mode] or filter.add(fingerprint))
end

-- -> nil, or why there is no room for another request if *waiting* requests wait
local function lacks_room(turn, waiting)
  if turn.full_memory then return 'memory' end
  if said.policy ~= 'slow' or waiting < said.most_waiting then return end
  return said.exceed and 'exceeded' or 'bound'
end

-- -> the slot of the i-th push; '' if it has none
local function slot_of(i)
  return said.slots and said.slots[said.slot_of and said.slot_of[i] or 1] or ''
end

-- Store the request of the i-th push, but not in a queue, because it may not begin before *due*.
local function park(i, request, due, cause)
  local name, rank = said.worker .. '/' .. said.exchange .. '.n' .. i, said.ranks and said.ranks[i] or 0
  local score = string.format('%.17g', tonumber(queue.scores({rank})[1]) or 0)
  leases.park('request', score, name, request, slot_of(i), due, cause)
end

function pushes.store(turn)
  local n, before, over = said.pushes, turn.waiting, turn.over
  local fingerprints, payloads = said.first.fingerprints, said.first.payloads
  local ranks, requests, slots, duplicates, stored, full, has_new = {}, {}, {}, {}, 0, '', false
  local may_lack = turn.full_memory or said.policy == 'slow'
  -- If all pushes have the mode 'filter', and there is room, check all fingerprints at once.
  local at_once = said.mode == 'filter' and not (may_lack or over or turn.repeated)
  local known = at_once and filter.add_in_turn(ARGV, fingerprints + 1, fingerprints + n)
  for i = 1, turn.repeated and 0 or n do
    local new
    if known then
      new = known[i] == 0
    else
      local mode, fingerprint = said.mode or said.modes[i], ARGV[fingerprints + i]
      local lacks = may_lack and lacks_room(turn, before + #requests)
      if lacks and not over and is_new(mode, fingerprint) then full = lacks end
      -- If there is no room, this push and all later ones stay in the outbox, in their order.
      if full ~= '' and full ~= 'exceeded' then break end
      new = not over and mark(mode, fingerprint)
    end
    if not new then
      duplicates[#duplicates + 1] = i
    else
      has_new = true
      if ARGV[payloads + i] ~= '' then
        local due, cause
        if said.columns then due, cause = admission.deferral(turn, i) end
        if due then
          park(i, ARGV[payloads + i], due, cause)
        else
          requests[#requests + 1] = ARGV[payloads + i]
          ranks[#requests] = said.ranks and said.ranks[i] or 0
          slots[#requests] = slot_of(i)
        end
      end
    end
    stored = i
  end
  if full == '' then full = lacks_room(turn, before + #requests) or '' end
  if full ~= '' then turn.want_seeds = 0 end
  if #requests > 0 then waiting.push(ranks, requests, slots) end
  if has_new and (turn.has_rare or turn.meta.finished) then ending.withdraw() end
  turn.duplicates, turn.stored, turn.full = duplicates, stored, full
end

function pushes.forget(turn)
  local forgotten = 0
  for i = 1, said.forgotten or 0 do
    local at = said.first.forgotten + 2 * i
    local mode, fingerprint = ARGV[at - 1], ARGV[at]
    if not turn.repeated then
      if STARTS[mode] then forgotten = forgotten + redis.call('SREM', STARTED, fingerprint) end
      if FILTERS[mode] and filter.remove(fingerprint) then forgotten = forgotten + 1 end
    end
  end
  if turn.has_rare then
    seen.sweep(SWEPT)
    clearing.sweep(SWEPT)
  end
  if not turn.over and forgotten > 0 then change_epoch() end
end

return pushes
