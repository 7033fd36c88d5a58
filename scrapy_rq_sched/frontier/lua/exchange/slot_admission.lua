-- Needs: keys, slots/slots, store/leases, slots/limits, slots/slot_reports, slots/shared_slots, slots/site_answers, slots/throttle, exchange/header, exchange/slot_policy, exchange/admission, exchange/outside
-- The limits of slots in an exchange.
--
-- step: is_limited: whether any slot may have limits; has_policy: whether the limits in the worker's settings are in force
--   given: turns for requests in the worker's memory: slot -> when each may begin; ask_at: when there may be more of them
--   given_outside: the same for requests that it sends without the scheduler; ask_outside_at: slot -> when to ask again, if
--   there are none; refused_outside: slot -> why they fail: 'blocked' or 'unreachable'
local slot_admission = {}

-- Hear what other spiders tell, and learn the limits of slots.
function slot_admission.learn(step)
  if slots.are_shared then
    shared_slots.heartbeat(step.worker, header.lease_ms)
    shared_slots.hear()
  end
  slot_policy.learn(step)
end

-- Take the worker's reports: of its turns, slot -> {how many it no longer has, when the last one began, how many began
-- no request, how many it still has}; of its downloads, slot -> how many have ended; and of the answers of sites, and their
-- latencies.
function slot_admission.report(step)
  if step.repeated then return end
  for slot, used in pairs(header.grants or {}) do
    slot_reports.used(limits.of(slot, slot_policy.all), step.worker, unpack(used, 1, 4))
  end
  for slot, n in pairs(header.downloaded or {}) do
    slot_reports.downloaded(limits.of(slot, slot_policy.all), step.worker, n)
  end
  if header.answers then site_answers.hear(step) end
  if header.latencies then throttle.hear(step) end
end

-- Begin no requests for a moment: Redis has come back with older data, or with none.
function slot_admission.be_quiet(step)
  step.meta.rewound = slots.now()
  redis.call('HSET', META, 'rewound', string.format('%.0f', step.meta.rewound))
end

-- Release the turns and downloads of *worker* for *held*, its {lease, value} pairs that went back.
function slot_admission.release(held, worker)
  local done = {}
  for _, lease in ipairs(held) do
    local _, _, _, _, place = leases.read(lease[2])
    local slot = slots.slot_of(place)
    if slot ~= '' and not done[slot] then
      done[slot] = true
      slot_reports.release(slot, worker)
    end
  end
end

function slot_admission.tell_again(step)
  for i = 2, #step.leases, 2 do
    local _, _, _, _, slot = leases.read(step.leases[i])
    if slot ~= '' then admission.tell(step, limits.of(slot, slot_policy.all)) end
  end
end

-- Give turns for requests in the worker's memory, which only this worker can crawl: slot -> how many it needs. A
-- repeated exchange gets the same turns again.
function slot_admission.give(step)
  if step.repeated then
    local before = redis.call('HGET', step.own, 'given')
    local is_read, given = pcall(cjson.decode, before or '')
    step.given = is_read and type(given) == 'table' and given or nil
    return
  end
  if step.over or step.order == 'pause' or step.order == 'stop' then
    redis.call('HDEL', step.own, 'given')
    return
  end
  for slot, n in pairs(header.asks) do
    local begins, following, state = admission.grants(step, slot, n)
    if begins then
      limits.handed(state, step.worker, begins, following, #begins)
      if #begins < n and following then step.ask_at = math.min(following, step.ask_at or math.huge) end
    else
      begins = {}
      for i = 1, n do begins[i] = limits.AT_ONCE end
    end
    if #begins > 0 then
      step.given = step.given or {}
      step.given[slot] = begins
    end
  end
  redis.call('HSET', step.own, 'given', step.given and cjson.encode(step.given) or '')
end

-- Give turns for requests that the worker sends without the scheduler: slot -> how many it needs. A repeated exchange gets
-- the same turns again.
function slot_admission.give_outside(step)
  if step.repeated then
    local is_read, given = pcall(cjson.decode, redis.call('HGET', step.own, 'given_outside') or '')
    step.given_outside = is_read and type(given) == 'table' and given or nil
    -- Turns that were recalled meanwhile are void.
    local recalled = step.given_outside and step.meta.recalled and site_answers.recalled(step)
    for _, slot in ipairs(recalled and recalled[2] or {}) do step.given_outside[slot] = nil end
    return
  end
  step.given_outside = {}
  for slot, n in pairs(header.outside) do
    local begins, again_at, why = outside.grants(step, slot, n)
    if #begins > 0 then step.given_outside[slot] = begins end
    if again_at then
      step.ask_outside_at = step.ask_outside_at or {}
      step.ask_outside_at[slot] = again_at
    elseif why then
      step.refused_outside = step.refused_outside or {}
      step.refused_outside[slot] = why
    end
  end
  redis.call('HSET', step.own, 'given_outside', cjson.encode(step.given_outside))
end

return slot_admission -- seldom used
