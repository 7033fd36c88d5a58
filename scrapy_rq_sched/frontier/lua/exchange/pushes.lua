-- Needs: keys, queue, slots/slots, slots/lanes, slots/waiting, store/leases, slots/clear_waiting, store/seen, filter, fleet/crawl, exchange/header, exchange/admission, exchange/caps, exchange/followers
-- Store the requests that the worker has found, and forget fingerprints of requests that it did not crawl after all.
--
-- step: duplicates: places, from 1, of the pushes that were duplicates, and with a minus, of those that are above a cap (see
-- exchange/caps.lua); stored: how many pushes, from the first, were stored or dropped; full: why there is no room: 'memory',
-- 'bound'; or 'exceeded', if pushes were stored anyway
local STARTS, FILTERS = {start = true, ['start+filter'] = true}, {filter = true, ['start+filter'] = true}
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
local function lacks_room(step, waiting)
  if step.full_memory then return 'memory' end
  if header.policy ~= 'slow' or waiting < header.max_waiting then return end
  return header.exceed and 'exceeded' or 'bound'
end

-- -> the slot of the i-th push; '' if it has none
local function slot_of(i)
  return header.slots and header.slots[header.slot_of and header.slot_of[i] or 1] or ''
end

-- Store the request of the i-th push, but not in a queue, because it may not begin before *due*.
local function park(i, request, due, cause)
  local name, rank = header.worker .. '/' .. header.exchange .. '.n' .. i, header.ranks and header.ranks[i] or 0
  local score = string.format('%.17g', tonumber(queue.scores({rank})[1]) or 0)
  local place = slot_of(i)
  if slots.is_laned(place) then lanes.add(select(2, lanes.split(place))) end
  leases.park('request', score, name, request, place, due, cause)
end

function pushes.store(step)
  local n, before, over = header.pushes, step.waiting, step.over
  local fingerprints, payloads = header.first.fingerprints, header.first.payloads
  local ranks, requests, slots, duplicates, stored, full, has_new = {}, {}, {}, {}, 0, '', false
  -- In many batches, all requests have the same slot.
  local only_slot = not header.slot_of and slot_of(1)
  local may_lack = step.full_memory or header.policy == 'slow'
  -- If all pushes have the mode 'filter', and there is room, check all fingerprints at once.
  local has_caps = header.max_pages or header.caps or step.meta.caps
  local at_once = header.mode == 'filter' and not (may_lack or over or step.repeated or has_caps)
  local known = at_once and filter.add_in_turn(ARGV, fingerprints + 1, fingerprints + n)
  for i = 1, step.repeated and 0 or n do
    local new, is_above = nil, false
    if known then
      new = known[i] == 0
    else
      local mode, fingerprint = header.mode or header.modes[i], ARGV[fingerprints + i]
      local lacks = may_lack and lacks_room(step, before + #requests)
      if lacks and not over and is_new(mode, fingerprint) then full = lacks end
      -- If there is no room, this push and all later ones stay in the outbox, in their order.
      if full ~= '' and full ~= 'exceeded' then break end
      is_above = has_caps and not over and is_new(mode, fingerprint) and caps.refuses(step, i, slot_of(i))
      new = not over and not is_above and mark(mode, fingerprint)
    end
    if not new then
      duplicates[#duplicates + 1] = is_above and -i or i
    else
      has_new = true
      local is_grouped = header.groups or header.follows
      local is_settled = is_grouped and followers.store(step, i, ARGV[payloads + i], slot_of(i))
      if ARGV[payloads + i] ~= '' and not is_settled then
        local due, cause
        if header.columns then due, cause = admission.deferral(step, i) end
        if due then
          park(i, ARGV[payloads + i], due, cause)
        else
          requests[#requests + 1] = ARGV[payloads + i]
          ranks[#requests] = header.ranks and header.ranks[i] or 0
          if not only_slot then slots[#requests] = slot_of(i) end
        end
      end
    end
    stored = i
  end
  if full == '' then full = lacks_room(step, before + #requests) or '' end
  if full ~= '' then step.want_seeds = 0 end
  if #requests > 0 then waiting.push(ranks, requests, only_slot or slots) end
  if has_new and (step.has_rare or step.meta.finished) then crawl.withdraw_finish() end
  step.duplicates, step.stored, step.full = duplicates, stored, full
end

function pushes.forget(step)
  local forgotten = 0
  for i = 1, header.forgotten or 0 do
    local at = header.first.forgotten + 2 * i
    local mode, fingerprint = ARGV[at - 1], ARGV[at]
    if not step.repeated then
      if STARTS[mode] then forgotten = forgotten + redis.call('SREM', STARTED, fingerprint) end
      if FILTERS[mode] and filter.remove(fingerprint) then forgotten = forgotten + 1 end
    end
  end
  flush()
  if step.has_rare then
    seen.sweep(SWEPT)
    clear_waiting.sweep(SWEPT)
  end
  if not step.over and forgotten > 0 then change_epoch() end
end

return pushes
