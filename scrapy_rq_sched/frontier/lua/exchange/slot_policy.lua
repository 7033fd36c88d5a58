-- Needs: keys, slots/slots, number_of, exchange/header
-- The limits of slots in the settings of the workers: SlotPolicy in codec/slot_limits.py. META has the name of the
-- policy in force (rules), the limits of a slot by default, and the patterns; SLOT_LIMITS has the slots that the settings
-- name.
-- slot_policy.all: the limits of all slots, for limits.of()
--
-- step: wants_policy: the frontier does not know the limits in this worker's settings, and until it does, it hands out
--   nothing that may have limits; other_limits: the default limits of other workers with other settings, as text
local slot_policy = {}
-- The form of META's field rules: the name of a policy, in which there are the number of its names and the length of its
-- patterns; or a number that an older version of this package has written. And of the field slot_default.
local POLICY, VERSION, DEFAULT = '^p%x+%.(%d+)%.(%d+)$', '^%d+$', '^(%S+) (%S+) (%S+)$'
at_begin(function()
  -- stays: with FRONTIER_ORDER = 'priority', or if spiders share the slots, no slot is left to the worker that had it last.
  -- leaves: this worker does not keep up, and leaves the slots that it had last to the others.
  local stays = header.slot_order ~= 'priority' and not slots.are_shared
  -- throttles: the fleet of this worker adjusts its delays.
  slot_policy.all = {stays = stays, leaves = stays and header.is_late, throttles = header.throttle ~= nil}
end)

-- Store the limits of the slots that the settings name, but leave those that an older version has set: see slots/limits.lua.
local function store_named(named, rules)
  local names = {}
  for slot in pairs(named) do names[#names + 1] = slot end
  in_chunks(names, function(...)
    local some, fields = {...}, {}
    for i, before in ipairs(redis.call('HMGET', SLOT_LIMITS, ...)) do
      local its = named[some[i]]
      if not (before and string.sub(before, -4) == ' set') then
        fields[#fields + 1] = some[i]
        fields[#fields + 1] = string.format('%.17g %.17g %d %s', its[1], its[2], its[3], rules)
      end
    end
    if #fields > 0 then redis.call('HSET', SLOT_LIMITS, unpack(fields)) end
  end)
end

-- Store the limits in the settings of a worker. If the settings of several workers differ, those of the worker that joined
-- last apply.
local function store_policy(step, policy)
  local meta, its = step.meta, policy.default
  local had_limits = slots.is_limit(meta.slot_default)
  meta.rules, meta.slot_default = header.slot_policy, string.format('%.17g %.17g %d', its[1], its[2], its[3])
  local fields = {'rules', meta.rules, 'slot_default', meta.slot_default}
  -- Slots keep blocks, turns and downloads when the limits in the settings go.
  local keeps = had_limits and not slots.is_limit(meta.slot_default) or redis.call('EXISTS', SLOTS_BLOCKED) == 1
  if policy.named or policy.patterns or keeps then
    meta.limited = '1'
    fields[#fields + 1], fields[#fields + 2] = 'limited', '1'
  end
  if policy.patterns then
    fields[#fields + 1], fields[#fields + 2] = 'slot_patterns', policy.patterns
  else
    redis.call('HDEL', META, 'slot_patterns')
  end
  redis.call('HSET', META, unpack(fields))
  if policy.named then store_named(policy.named, meta.rules) end
end

-- -> the name of the policy in force; nil if any part of it is missing
local function policy_in_force(step)
  local rules = step.meta.rules or ''
  if not slots.is_default(step.meta.slot_default) then return nil end
  if string.find(rules, VERSION) then return rules end
  local names, length = string.match(rules, POLICY)
  if not names or step.named_slots < tonumber(names) then return nil end
  if length ~= '0' and redis.call('HSTRLEN', META, 'slot_patterns') ~= tonumber(length) then return nil end
  return rules
end

-- Compare the policy in force with the worker's settings, and store those. A worker sends them in its first exchange, and
-- when the frontier wants them. A worker without limits in its settings uses the limits of the other workers.
local function compare(step)
  local meta, known = step.meta, policy_in_force(step)
  local differs = known and known ~= header.slot_policy and string.find(known, POLICY)
  if differs and (header.limits or header.exchange == 1) then step.other_limits = meta.slot_default end
  if header.limits and known ~= header.slot_policy and not step.over then
    store_policy(step, header.limits)
  elseif header.slot_policy and not known and not step.over then
    -- A request may begin only within its limits, and somebody has removed these.
    step.wants_policy, step.want = true, 0
    header.asks, header.outside = header.asks and {}, header.outside and {}
  end
end

-- Learn the limits of slots, and store those of the worker.
function slot_policy.learn(step)
  if not (header.slot_policy and step.has_policy) then compare(step) end
  slot_policy.read(step)
end

-- Learn the limits of slots that META has.
function slot_policy.read(step)
  local meta = step.meta
  local delay, jitter, concurrency = string.match(meta.slot_default or '', DEFAULT)
  local all = slot_policy.all
  all.delay, all.jitter, all.concurrency = number_of(delay, 0), number_of(jitter, 0), number_of(concurrency, 0)
  all.has_own, all.rules = meta.limited and meta.limited ~= slots.ONLY_STATES, meta.rules
  step.is_limited = slots.may_be_limited(meta.limited, meta.slot_default)
end

return slot_policy -- seldom used
