-- Needs: keys, slots, leases, histories, failures, put_back, exporting, exchange/said, exchange/admission
-- End the worker's leases: finished, given back, refused, or set aside.
--
-- turn: kept: the number of leases that are not released, because the new requests of their pages are not stored yet
local release = {}
local ARGV = ARGV

-- -> the lease's value; nil if it is not released. A missing lease was reclaimed and belongs to another worker now.
local function let_go(turn, lease, after)
  if turn.repeated then return end
  local value = redis.call('HGET', turn.held, lease)
  if value and after > turn.stored then
    turn.kept = turn.kept + 1
    return
  end
  if value then
    redis.call('HDEL', turn.held, lease)
    turn.holds = turn.holds - 1
    exporting.note({value}, turn.now)
  end
  return value
end

function release.finish(turn)
  local n, remembered = said.finished, turn.has_rare and redis.call('EXISTS', HISTORY) == 1
  local before = said.first.finished
  if turn.repeated or n == 0 then return end
  -- Compare with most_after, not with the number of pushes: an exchange may have fewer pushes than its leases wait for.
  local all_stored = (said.most_after or 0) <= turn.stored
  if not remembered and not exporting.on and all_stored then
    in_chunks(ARGV, function(...) turn.holds = turn.holds - redis.call('HDEL', turn.held, ...) end, before + 1, before + n)
    return
  end
  for i = 1, n do
    local lease, after = ARGV[before + i], said.after and said.after[i] or 0
    local value = let_go(turn, lease, after)
    if value and remembered then
      local _, _, _, request = leases.read(value)
      redis.call('HDEL', HISTORY, redis.sha1hex(request))
    elseif not value and remembered and after <= turn.stored then
      histories.note_done(turn.own, lease, turn.worker, turn.now)
    end
  end
end

function release.give_back(turn)
  local given_back = {}
  for i = 1, said.given_back or 0 do
    local lease = ARGV[said.first.given_back + i]
    local value = let_go(turn, lease, 0)
    if value then given_back[#given_back + 1] = {lease, value} end
  end
  put_back(given_back, turn.worker, said.most_failed, turn.now)
end

function release.refuse(turn)
  for i = 1, said.refused or 0 do
    local at = said.first.refused + 2 * i
    local lease, reason = ARGV[at - 1], ARGV[at]
    local value = let_go(turn, lease, 0)
    if value then
      local kind, score, _, request, slot = leases.read(value)
      -- If no worker alive can do this request, it would go round forever. Only then it is set aside.
      if admission.is_refused_by_all(histories.add(request, 'refused', turn.worker, turn.now), turn.now) then
        reason = reason .. '; no other worker alive has it'
        failures.set_aside(turn.worker, {lease, value}, reason, '', 0, said.most_failed, turn.now)
      else
        leases.park(kind, score, turn.worker .. '/' .. lease, request, slot, math.floor(slots.now()), 'refused')
      end
    end
  end
end

function release.set_aside(turn)
  for i = 1, said.failed or 0 do
    local at = said.first.failed + 4 * i
    local lease, after, reason, traceback = ARGV[at - 3], tonumber(ARGV[at - 2]), ARGV[at - 1], ARGV[at]
    local value = let_go(turn, lease, after)
    if value then
      failures.set_aside(turn.worker, {lease, value}, reason, traceback, 1, said.most_failed, turn.now)
    end
  end
end

return release
