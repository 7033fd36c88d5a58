-- Needs: keys, slots, leases, limits, reported, sharing, exchange/said, exchange/slot_policy, exchange/admission
-- The limits of slots in an exchange.
-- limited.given: turns for requests in the worker's memory: slot -> when each may begin
-- limited.ask_at: when there may be more of these turns
local limited = {}
-- -> whether any slot has limits; in most crawls none has
function limited.is_on(turn)
  return turn.meta.limited or turn.meta.slot_default or slots.are_shared
end

-- Hear what other spiders tell, and learn the limits of slots.
function limited.learn(turn)
  if slots.are_shared then
    sharing.heartbeat(turn.worker, said.lease_ms)
    sharing.hear()
  end
  if said.slot_policy or limited.is_on(turn) then slot_policy.learn(turn) end
end

-- Take the worker's reports: of its turns, slot -> {how many it no longer has, when the last one began, how many began
-- no request}; and of its downloads, slot -> how many have ended.
function limited.report(turn)
  if turn.repeated then return end
  for slot, used in pairs(said.turns or {}) do
    reported.used(limits.of(slot, slot_policy.all), turn.worker, used[1], used[2], used[3])
  end
  for slot, n in pairs(said.downloaded or {}) do reported.downloaded(slot, turn.worker, n) end
end

-- Begin no requests for a moment: Redis has come back with older data, or with none.
function limited.be_quiet(turn)
  turn.meta.rewound = slots.now()
  redis.call('HSET', META, 'rewound', string.format('%.0f', turn.meta.rewound))
end

-- Release the turns and downloads of *worker* for *held*, its {lease, value} pairs that went back.
function limited.release(held, worker)
  local done = {}
  for _, lease in ipairs(held) do
    local _, _, _, _, slot = leases.read(lease[2])
    if slot ~= '' and not done[slot] then
      done[slot] = true
      reported.release(slot, worker)
    end
  end
end

function limited.tell_again(turn)
  for i = 2, #turn.leases, 2 do
    local _, _, _, _, slot = leases.read(turn.leases[i])
    if slot ~= '' then admission.tell(limits.of(slot, slot_policy.all)) end
  end
end

-- Give turns for requests in the worker's memory, which only this worker can crawl: slot -> how many it needs. A
-- repeated exchange gets the same turns again.
function limited.give(turn)
  if not said.asks then return end
  if turn.repeated then
    local before = redis.call('HGET', turn.own, 'given')
    local is_read, given = pcall(cjson.decode, before or '')
    limited.given = is_read and type(given) == 'table' and given or nil
    return
  end
  if turn.over or turn.told == 'pause' or turn.told == 'stop' then
    redis.call('HDEL', turn.own, 'given')
    return
  end
  for slot, n in pairs(said.asks) do
    local begins, following, state = admission.turns(turn, slot, n)
    if begins then
      limits.handed(state, turn.worker, begins, following, #begins)
      if #begins < n and following then limited.ask_at = math.min(following, limited.ask_at or math.huge) end
    else
      begins = {}
      for i = 1, n do begins[i] = limits.AT_ONCE end
    end
    if #begins > 0 then
      limited.given = limited.given or {}
      limited.given[slot] = begins
    end
  end
  redis.call('HSET', turn.own, 'given', limited.given and cjson.encode(limited.given) or '')
end

return limited
