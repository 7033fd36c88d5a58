-- Needs: keys, slots/slots, slots/lanes, slots/waiting, store/seeds, store/leases, store/failures, slots/limits, store/pools, fleet/export_notes, exchange/header, exchange/admission, exchange/make_leases
-- Hand out everything that does not wait in slots: seeds, requests that were set back, and requests to drop.
local lease_others = {}
-- The number of entries that were set back that one exchange looks at.
local PARKED = 50

-- Hand out seeds. They may be large, so a few are taken at a time, until the exchange is full; at least one. A seed
-- that is too large is set aside here, so that no worker gets it as a lease.
function lease_others.seeds(step)
  local later, left, most, refused, refused_bytes = {}, step.want_seeds, header.max_seed_bytes or math.huge, 0, 0
  while left > 0 and step.bytes + refused_bytes < leases.MAX_BYTES do
    local taken = seeds.take(math.min(left, refused > 0 and 1 or 10))
    if #taken == 0 then break end
    left = left - #taken
    for _, seed in ipairs(taken) do
      local is_large = #seed[3] > most
      local entry = not is_large and make_leases.entry_of(step, seed[3])
      if is_large then
        refused, refused_bytes = refused + 1, refused_bytes + #seed[3]
        failures.set_aside_large(step.worker, step.prefix .. 'large' .. refused, seed, most, header.max_failed, step.now)
      elseif entry and (step.bytes >= leases.MAX_BYTES or step.remembered and admission.refusal(step, entry, true)) then
        later[#later + 1] = seed
      elseif entry then
        if step.remembered then admission.admitted(step, entry, true) end
        make_leases.hand_out(step, seed[1], seed[2], entry.deaths, seed[3], '')
      end
    end
  end
  for i = #later, 1, -1 do seeds.put_back(unpack(later[i])) end
end

function lease_others.share(step)
  step.parked = (step.has_rare or tally.parked) and redis.call('ZCARD', DELAYED) or 0
  step.want = math.min(step.want, math.max(1, math.ceil((waiting.length() + step.parked) / step.workers)))
end

-- Hand out an entry that was set back. If its slot has no turn for it now, it goes back to the slot's queue.
function lease_others.serve(step, kind, score, entry, request, slot, is_limited)
  local begins, following, state = nil, nil, nil
  if is_limited and slot ~= '' then begins, following, state = admission.grants(step, slot, 1) end
  if begins and #begins == 0 then return waiting.put_back({{score, request, slot}}) end
  make_leases.give(step, kind, score, entry, request, slot, begins and begins[1])
  if begins then limits.handed(state, step.worker, begins, following, 1) end
end

-- Hand out entries that were set back, and are due. They come first, because they have waited longest.
function lease_others.parked(step)
  if step.parked == 0 or step.want + step.want_seeds <= 0 then return end
  local passed, now, is_limited = {}, math.floor(slots.now()), step.is_limited
  for _, parked in ipairs(redis.call('ZRANGEBYSCORE', DELAYED, '-inf', now, 'LIMIT', 0, PARKED)) do
    local kind, score, request, slot, cause = leases.parked(parked)
    local wanted = seeds.kinds[kind] and step.want_seeds or step.want
    -- A request that only waited for its time goes back to its queue, whatever it needs.
    local is_offered = cause == 'time' or not string.find(slot, '|', 1, true)
      or lanes.are_offered(slot, step.offers) and pools.room(slot, 1) > 0
    local has_room = is_offered and wanted > 0 and step.bytes < leases.MAX_BYTES
    local entry = has_room and make_leases.entry_of(step, request, slot)
    local due = entry and step.remembered and admission.refusal(step, entry)
    if due and due > now then
      redis.call('ZADD', DELAYED, math.ceil(due), parked)
    elseif not has_room or due then
      passed[#passed + 1] = parked
    else
      redis.call('ZREM', DELAYED, parked)
      export_notes.note({leases.value(kind, score, 0, step.second, request, slot)}, step.now)
      -- A request that only waited for its time competes with the others again.
      if entry and cause == 'time' then
        waiting.put_back({{score, request, slot}})
      elseif entry then
        lease_others.serve(step, kind, score, entry, request, slot, is_limited)
      end
    end
  end
  if #passed < PARKED then return end
  -- Further entries wait behind these. Move these back for a moment.
  for _, entry in ipairs(passed) do redis.call('ZADD', DELAYED, now + 1000, entry) end
end

-- If too many requests wait, give the last ones to this worker, which drops them and forgets their fingerprints. Not
-- during an export, which would miss requests that move.
function lease_others.drop(step)
  local bounded = header.policy == 'drop-lowest' and not export_notes.on
  local excess = bounded and waiting.length() - header.max_waiting or 0
  local scores, dropped, slot = waiting.drop(math.min(excess, 1000))
  step.dropped = #dropped
  for i, request in ipairs(dropped) do make_leases.hand_out(step, 'drop', scores[i], 0, request, slot) end
end

return lease_others
