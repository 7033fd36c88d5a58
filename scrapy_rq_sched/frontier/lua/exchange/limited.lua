-- Needs: keys, slots, own_slots, number_of, leases, limits, reported, events, exchange/said
-- The limits of slots in an exchange.
-- limited.told: limits that were set during the crawl, for slots of which this worker was given turns
-- limited.given: turns for requests in the worker's memory: slot -> when each may begin
-- limited.ask_at: when there may be more of these turns
local limited = {}
-- After Redis came back with older data, no request of a slot begins for this many milliseconds, or for the slot's
-- delay if that is longer. During this time a worker may still have turns that Redis no longer knows.
local QUIET = 2000
local ALL = {
  -- With FRONTIER_ORDER = 'priority', or if spiders share the slots, no slot is left to the worker that had it last.
  stays = said.order ~= 'priority' and not slots.are_shared,
}

-- -> whether any slot has limits; in most crawls none has
function limited.is_on(turn)
  return said.delay or said.concurrency or turn.meta.limited or turn.meta.slot_default or slots.are_shared
end

-- -> delay, jitter, concurrency for slots without their own limits. A worker without limits in its settings uses the
-- limits of the other workers.
local function default(turn)
  local delay, jitter, concurrency = string.match(turn.meta.slot_default or '', '^(%S+) (%S+) (%S+)$')
  if said.delay or said.concurrency or not delay then
    delay, jitter, concurrency = said.delay or 0, said.jitter or 0, said.concurrency or 0
    local text = string.format('%.17g %.17g %d', delay, jitter, concurrency)
    if limited.is_on(turn) and turn.meta.slot_default ~= text then redis.call('HSET', META, 'slot_default', text) end
  end
  return number_of(delay, 0), number_of(jitter, 0), number_of(concurrency, 0)
end

-- Learn the limits of slots from the worker's settings: slot -> {delay, jitter, concurrency}.
function limited.learn(turn)
  ALL.has_own, ALL.rules = turn.meta.limited, turn.meta.rules
  ALL.delay, ALL.jitter, ALL.concurrency = default(turn)
  if turn.repeated then return end
  for slot, its in pairs(said.limits or {}) do
    local before = redis.call('HGET', SLOT_LIMITS, slot)
    local text = string.format('%.17g %.17g %d %s', its[1], its[2], its[3], ALL.rules)
    local is_set = before and string.sub(before, -4) == ' set'
    if not is_set and before ~= text then redis.call('HSET', SLOT_LIMITS, slot, text) end
  end
  if said.limits and not turn.meta.limited then
    redis.call('HSET', META, 'limited', '1')
    turn.meta.limited = '1'
  end
  ALL.has_own = turn.meta.limited
end

-- Take the worker's reports: of its turns, slot -> {how many it no longer has, when the last one began, how many began
-- no request}; and of its downloads, slot -> how many have ended.
function limited.report(turn)
  if turn.repeated then return end
  for slot, used in pairs(said.turns or {}) do
    reported.used(limits.of(slot, ALL), turn.worker, used[1], used[2], used[3])
  end
  if said.turns then own_slots.write() end
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

-- Tell the worker limits that were set during the crawl, because its settings have others.
local function tell(state)
  if not state.is_set then return end
  limited.told = limited.told or {}
  limited.told[state.slot] = {state.delay, state.jitter, state.concurrency, state.sets_delay}
end

function limited.tell_again(turn)
  for i = 2, #turn.leases, 2 do
    local _, _, _, _, slot = leases.read(turn.leases[i])
    if slot ~= '' then tell(limits.of(slot, ALL)) end
  end
end

-- -> begins, following, state: see limits.turns; nil if the slot has no limits
function limited.turns(turn, slot, most)
  local state = limits.of(slot, ALL)
  tell(state)
  if state.blocked > 0 and state.blocked <= slots.now() then
    redis.call('HDEL', SLOT .. slot, 'blocked')
    events.tell('slot_free', nil, {slot = slot})
    state.blocked = 0
  end
  if state.delay + state.concurrency == 0 and state.blocked <= slots.now() then return nil end
  -- Each slot may have sent a request that Redis has forgotten.
  local rewound = number_of(turn.meta.rewound, 0)
  local not_before = rewound > 0 and rewound + math.max(QUIET, state.delay) or 0
  local begins, following = limits.turns(state, turn.worker, most, said.ahead or 0, said.lease_ms, not_before)
  return begins, following, state
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
    local begins, following, state = limited.turns(turn, slot, n)
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
