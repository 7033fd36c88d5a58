-- Needs: keys, slots, waiting, seeds, leases, failures, limits, exporting, exchange/said, exchange/limited, exchange/admission, exchange/handing
-- Hand out everything that does not wait in slots: seeds, requests that were set back, and requests to drop.
local leasing = {}
-- The number of entries that were set back that one exchange looks at.
local PARKED = 50

-- Hand out seeds. They may be large, so a few are taken at a time, until the exchange is full; at least one. A seed
-- that is too large is set aside here, so that no worker gets it as a lease.
function leasing.seeds(turn)
  local later, left, most, refused, refused_bytes = {}, turn.want_seeds, said.most_seed_bytes or math.huge, 0, 0
  while left > 0 and turn.bytes + refused_bytes < leases.MAX_BYTES do
    local taken = seeds.take(math.min(left, refused > 0 and 1 or 10))
    if #taken == 0 then break end
    left = left - #taken
    for _, seed in ipairs(taken) do
      local is_large = #seed[3] > most
      local entry = not is_large and handing.entry_of(turn, seed[3])
      if is_large then
        refused, refused_bytes = refused + 1, refused_bytes + #seed[3]
        failures.set_aside_large(turn.worker, turn.prefix .. 'large' .. refused, seed, most, said.most_failed, turn.now)
      elseif entry and (turn.bytes >= leases.MAX_BYTES or admission.refusal(turn, entry, true)) then
        later[#later + 1] = seed
      elseif entry then
        admission.admitted(turn, entry, true)
        handing.hand_out(turn, seed[1], seed[2], entry.deaths, seed[3], '')
      end
    end
  end
  for i = #later, 1, -1 do seeds.put_back(unpack(later[i])) end
end

function leasing.share(turn)
  turn.delayed = (turn.has_rare or tally.parked) and redis.call('ZCARD', DELAYED) or 0
  turn.want = math.min(turn.want, math.max(1, math.ceil((waiting.length() + turn.delayed) / turn.workers)))
end

-- Hand out an entry that was set back. If its slot has no turn for it now, it goes back to the slot's queue.
function leasing.serve(turn, kind, score, entry, request, slot, is_limited)
  local begins, following, state = nil, nil, nil
  if is_limited and slot ~= '' then begins, following, state = admission.turns(turn, slot, 1) end
  if begins and #begins == 0 then return waiting.put_back({{score, request, slot}}) end
  handing.give(turn, kind, score, entry, request, slot, begins and begins[1])
  if begins then limits.handed(state, turn.worker, begins, following, 1) end
end

-- Hand out entries that were set back, and are due. They come first, because they have waited longest.
function leasing.delayed(turn)
  if turn.delayed == 0 or turn.want + turn.want_seeds <= 0 then return end
  local passed, now, is_limited = {}, math.floor(slots.now()), limited.is_on(turn)
  for _, parked in ipairs(redis.call('ZRANGEBYSCORE', DELAYED, '-inf', now, 'LIMIT', 0, PARKED)) do
    local kind, score, request, slot = leases.parked(parked)
    local wanted = seeds.kinds[kind] and turn.want_seeds or turn.want
    local has_room = wanted > 0 and turn.bytes < leases.MAX_BYTES
    local entry = has_room and handing.entry_of(turn, request)
    local due = entry and admission.refusal(turn, entry)
    if not has_room or due then
      passed[#passed + 1] = parked
      if due and due > now then redis.call('ZADD', DELAYED, math.ceil(due), parked) end
    else
      redis.call('ZREM', DELAYED, parked)
      exporting.note({leases.value(kind, score, 0, turn.second, request, slot)}, turn.now)
      if entry then leasing.serve(turn, kind, score, entry, request, slot, is_limited) end
    end
  end
  if #passed < PARKED then return end
  -- Further entries wait behind these. Move these back for a moment.
  for _, entry in ipairs(passed) do redis.call('ZADD', DELAYED, now + 1000, entry) end
end

-- If too many requests wait, give the last ones to this worker, which drops them and forgets their fingerprints. Not
-- during an export, which would miss requests that move.
function leasing.drop(turn)
  local bounded = said.policy == 'drop-lowest' and not exporting.on
  local excess = bounded and waiting.length() - said.most_waiting or 0
  local scores, dropped, slot = waiting.drop(math.min(excess, 1000))
  turn.dropped = #dropped
  for i, request in ipairs(dropped) do handing.hand_out(turn, 'drop', scores[i], 0, request, slot) end
end

return leasing
