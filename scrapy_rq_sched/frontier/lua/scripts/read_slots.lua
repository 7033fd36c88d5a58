-- Needs: keys, slots/slots, exchange/header, exchange/slot_policy, exchange/admission
-- Read the status of slots. Admission answers when a slot may give a request, and why not before; nothing is changed.
--
-- ARGV  a header, in JSON: worker ('': it is asked for the slot's own worker), lease_ms, is_sorted: whether the queues
--       are sorted sets; then the names of slots
-- Reply for each slot a JSON object of numbers and texts; times in milliseconds. It has no delay, jitter and concurrency
--       if no worker has sent the limits of slots.
local fields = redis.call('HMGET', META, 'rules', 'slot_default', 'limited', 'rewound')
local step = {
  worker = '', named_slots = math.huge,
  meta = {rules = fields[1], slot_default = fields[2], limited = fields[3], rewound = fields[4]},
}
slot_policy.learn(step)
local is_known, reply = slots.is_default(step.meta.slot_default), {}
for i = 2, #ARGV do
  local slot = ARGV[i]
  local problem = wrong_type({{SLOT .. slot, 'hash'}})
  if problem then return wrong_type_error(problem) end
  local waiting = redis.call(header.is_sorted and 'ZCARD' or 'LLEN', SLOT_REQUESTS .. slot)
  local state, again_at, why = admission.look(step, slot, waiting > 0)
  local has_limits = is_known or state.is_set
  reply[i - 1] = cjson.encode({
    slot = slot, waiting = waiting, next_in = again_at and math.max(0, again_at - slots.now()) or 0, why = why or '',
    blocked_for = math.max(0, state.blocked - slots.now()), is_set = state.is_set, active = state.active,
    owner = state.pending > 0 and state.owner or '', delay = has_limits and state.delay or nil,
    jitter = has_limits and state.jitter or nil, concurrency = has_limits and state.concurrency or nil,
  })
end
return reply
