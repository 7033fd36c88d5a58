-- Needs: keys, slots/slots, store/leases, store/histories, store/groups, store/pools, store/failures, store/put_back, fleet/export_notes, exchange/header, exchange/admission
-- End the worker's leases: finished, given back, refused, or set aside.
--
-- step: kept: the number of leases that are not released, because the new requests of their pages are not stored yet
local release = {}

-- -> whether there is no room for the items of a lease's page
local function lacks_room(step, lease)
  return step.with_items and step.no_items ~= '' and step.with_items[lease]
end

-- -> the lease's value; nil if it is not released. A missing lease was reclaimed and belongs to another worker now.
local function let_go(step, lease, after)
  if step.repeated then return end
  local value = redis.call('HGET', step.held, lease)
  if value and (after > step.stored or lacks_room(step, lease)) then
    step.kept = step.kept + 1
    return
  end
  if value then
    redis.call('HDEL', step.held, lease)
    step.holds = step.holds - 1
    export_notes.note({value}, step.now)
    pools.released(step.worker, {lease, value})
  end
  return value
end

function release.finish(step)
  local n, remembered = header.finished, step.has_rare and redis.call('EXISTS', HISTORY) == 1
  local before = header.first.finished
  if step.repeated or n == 0 then return end
  -- Compare with most_after, not with the number of pushes: an exchange may have fewer pushes than its leases wait for.
  local all_stored = (header.most_after or 0) <= step.stored and (step.no_items or '') == ''
  if not (remembered or export_notes.on or groups.are_used() or pools.are_used()) and all_stored then
    in_chunks(ARGV, function(...) step.holds = step.holds - redis.call('HDEL', step.held, ...) end, before + 1, before + n)
    return
  end
  for i = 1, n do
    local lease, after = ARGV[before + i], header.after and header.after[i] or 0
    local value = let_go(step, lease, after)
    if value and (remembered or groups.are_used()) then
      local _, _, _, request = leases.read(value)
      if remembered then redis.call('HDEL', HISTORY, redis.sha1hex(request)) end
      groups.released(request)
    elseif not value and remembered and after <= step.stored and not (step.with_items and step.with_items[lease]) then
      -- Not if the page has items, which were refused: it is crawled again.
      histories.note_done(step.own, lease, step.worker, step.now)
    end
  end
end

function release.give_back(step)
  local given_back = {}
  for i = 1, header.given_back or 0 do
    local lease = ARGV[header.first.given_back + i]
    local value = let_go(step, lease, 0)
    if value then given_back[#given_back + 1] = {lease, value} end
  end
  put_back(given_back, step.worker, header.max_failed, step.now)
end

function release.refuse(step)
  for i = 1, header.refused or 0 do
    local at = header.first.refused + 2 * i
    local lease, reason = ARGV[at - 1], ARGV[at]
    local value = let_go(step, lease, 0)
    if value then
      local kind, score, _, request, slot = leases.read(value)
      -- If no worker alive can do this request, it would go round forever. Only then it is set aside.
      local history = histories.add(request, 'refused', step.worker, step.now)
      if admission.is_refused_by_all(history, step.now, slot) then
        reason = reason .. '; no other worker alive has it'
        failures.set_aside(step.worker, {lease, value}, reason, '', 0, header.max_failed, step.now)
      else
        leases.park(kind, score, step.worker .. '/' .. lease, request, slot, math.floor(slots.now()), 'refused')
      end
    end
  end
end

function release.set_aside(step)
  for i = 1, header.failed or 0 do
    local at = header.first.failed + 4 * i
    local lease, after, reason, traceback = ARGV[at - 3], tonumber(ARGV[at - 2]), ARGV[at - 1], ARGV[at]
    local value = let_go(step, lease, after)
    if value then
      failures.set_aside(step.worker, {lease, value}, reason, traceback, 1, header.max_failed, step.now)
    end
  end
end

return release
