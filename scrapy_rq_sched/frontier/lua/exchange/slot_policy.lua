-- Needs: keys, slots/slots, slots/slot_patterns, number_of, exchange/header
-- The limits of slots in the settings of the workers: SlotPolicy in codec/slot_limits.py. META has the name of the
-- policy in force (rules), the limits of a slot by default, and the patterns; SLOT_LIMITS has the slots that the settings
-- name.
-- slot_policy.all: the limits of all slots, for limits.of()
--
-- step: wants_policy: the frontier does not know the limits in this worker's settings, and until it does, it hands out
--   nothing that may have limits; other_limits: the default limits of other workers with other settings, as text;
--   limits_in_force: the default limits in force, as text, if the policy in force is not this worker's
local slot_policy = {}
-- The form of META's field rules: the name of a policy, in which there are the number of its names and the length of its
-- patterns; or a number that an older version of this package has written. MERGED is at its end if the policy also has limits
-- of other workers. And of the field slot_default.
local POLICY, VERSION, DEFAULT = '^p%x+%.(%d+)%.(%d+)%+?$', '^%d+$', '^(%S+) (%S+) (%S+)$'
local MERGED = '+'
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

-- -> the names of the other living workers
local function others_of(step)
  local names = redis.call('ZRANGEBYSCORE', WORKERS, '(' .. step.now, '+inf')
  for i = #names, 1, -1 do
    if names[i] == step.worker then table.remove(names, i) end
  end
  return names
end

-- -> whether any of these workers has other limits in its settings. One without limits has no field policy.
local function have_others(names)
  for _, name in ipairs(names) do
    if (redis.pcall('HGET', WORKER .. name, 'policy') or header.slot_policy) ~= header.slot_policy then return true end
  end
  return false
end

-- -> delay, jitter and concurrency of META's field slot_default
local function default_in(text)
  local delay, jitter, concurrency = string.match(text or '', DEFAULT)
  return number_of(delay, 0), number_of(jitter, 0), number_of(concurrency, 0)
end

-- Add the limits in force of slots by name to *named*. A slot that has no delay there, or no concurrency, keeps that in force,
-- also of the former patterns.
local function add_named(named, rules, default)
  local fields, before = redis.call('HGETALL', SLOT_LIMITS), {}
  for i = 1, #fields, 2 do
    local delay, jitter, concurrency, its_rules = string.match(fields[i + 1], '^(%S+) (%S+) (%S+) (%S+)$')
    if its_rules == rules then
      before[fields[i]] = {number_of(delay, 0), number_of(jitter, 0), number_of(concurrency, 0)}
    end
  end
  for slot, its in pairs(named) do
    local had = before[slot] or {slot_patterns.limits_of(slot)}
    if its[1] == 0 then its[1], its[2] = had[1] or default[1], had[2] or default[2] end
    if its[3] == 0 then its[3] = had[3] or default[3] end
  end
  for slot, its in pairs(before) do named[slot] = named[slot] or its end
end

-- -> *patterns* and those in force of other globs, as text; nil if there are none. One without a delay comes last, since it
-- must hide no delay, and has that by default.
local function with_former_patterns(patterns, default)
  local is_read, before = pcall(cjson.decode, redis.call('HGET', META, 'slot_patterns') or '[]')
  local known, all, without_delay = {}, {}, {}
  local function add(pattern)
    local glob = type(pattern) == 'table' and pattern[1]
    if not glob or known[glob] then return end
    known[glob], all[#all + 1] = true, pattern
  end
  for _, pattern in ipairs(patterns and cjson.decode(patterns) or {}) do
    if pattern[5] == 0 then pattern[5] = default[3] end
    if pattern[3] > 0 then
      add(pattern)
    else
      pattern[3], pattern[4] = default[1], default[2]
      without_delay[#without_delay + 1] = pattern
    end
  end
  for _, pattern in ipairs(is_read and type(before) == 'table' and before or {}) do add(pattern) end
  for _, pattern in ipairs(without_delay) do add(pattern) end
  return #all > 0 and cjson.encode(all) or nil
end

-- Add the limits in force to *policy*, which is of a worker that joins others with other limits. -> the name of both together
local function merge(step, policy, known)
  local its, delay, jitter, concurrency = policy.default, default_in(step.meta.slot_default)
  if its[1] == 0 then its[1], its[2] = delay, jitter end
  if its[3] == 0 then its[3] = concurrency end
  policy.named = policy.named or {}
  add_named(policy.named, known, its)
  policy.patterns = with_former_patterns(policy.patterns, its)
  slot_patterns.forget()
  return header.slot_policy .. MERGED
end

-- Store the limits in the settings of a worker. If the settings of several workers differ, those of the worker that joined
-- last apply. If it has no delay by default, it takes none from the others: their limits stay in force beside its own.
local function store_policy(step, policy, known)
  local meta, its, others = step.meta, policy.default, others_of(step)
  local had_limits = slots.is_limit(meta.slot_default)
  meta.rules = header.slot_policy
  if its[1] == 0 and known and string.find(known, POLICY) and have_others(others) then meta.rules = merge(step, policy, known) end
  meta.slot_default = string.format('%.17g %.17g %d', its[1], its[2], its[3])
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
  -- The workers that are there give back the requests that they have not begun, which may have to wait now.
  if #others > 0 and header.exchange == 1 then
    meta.limits_changed = exact_time()
    fields[#fields + 1], fields[#fields + 2] = 'limits_changed', meta.limits_changed
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
  if length ~= '0' then
    local length_now, is_merged = redis.call('HSTRLEN', META, 'slot_patterns'), string.sub(rules, -1) == MERGED
    if length_now == 0 or length_now ~= tonumber(length) and not is_merged then return nil end
  end
  return rules
end

-- Compare the policy in force with the worker's settings, and store those. A worker sends them in its first exchange, and
-- when the frontier wants them. A worker without limits in its settings uses the limits of the other workers.
local function compare(step)
  local meta, known = step.meta, policy_in_force(step)
  -- A policy that also has limits of other workers is needed as long as these are there.
  local was_mixed = header.limits and known == header.slot_policy .. MERGED and not have_others(others_of(step))
  local differs = known and known ~= header.slot_policy and string.find(known, POLICY)
  if differs and not was_mixed and (header.limits or header.exchange == 1) then step.other_limits = meta.slot_default end
  if header.limits then redis.call('HSET', step.own, 'policy', header.slot_policy) end
  local is_new = header.limits and known ~= header.slot_policy and known ~= header.slot_policy .. MERGED
  if (is_new or was_mixed) and not step.over then
    store_policy(step, header.limits, known)
  elseif header.slot_policy and not known and not step.over then
    -- A request may begin only within its limits, and somebody has removed these.
    step.wants_policy, step.want = true, 0
    header.asks, header.outside = header.asks and {}, header.outside and {}
  end
  if meta.rules and meta.rules ~= header.slot_policy then step.limits_in_force = meta.slot_default end
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
