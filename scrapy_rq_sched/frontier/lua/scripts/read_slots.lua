-- Needs: keys, number_of, slots/slots, slots/lanes, slots/limits, exchange/header, exchange/slot_policy, exchange/admission
-- Read the status of slots. Admission answers when a slot may give a request, and why not before; nothing is changed.
--
-- ARGV  a header, in JSON: worker ('': it is asked for the slot's own worker), lease_ms, is_sorted: whether the queues
--       are sorted sets; then the names of slots
-- Reply for each slot a JSON object of numbers and texts; times in milliseconds. If no worker has sent the limits of slots,
--       it has only those that were set during the crawl.
local fields = redis.call('HMGET', META, 'rules', 'slot_default', 'limited', 'rewound')
local step = {
  worker = '', meta = {rules = fields[1], slot_default = fields[2], limited = fields[3], rewound = fields[4]},
}
slot_policy.read(step)
local is_known, reply = slots.is_default(step.meta.slot_default), {}
for i = 2, #ARGV do
  local place = ARGV[i]
  local slot = lanes.split(place)
  local problem = wrong_type({{SLOT .. slot, 'hash'}})
  if problem then return wrong_type_error(problem) end
  local waiting = redis.call(header.is_sorted and 'ZCARD' or 'LLEN', SLOT_REQUESTS .. place)
  local pages = redis.pcall('HMGET', SLOT_PAGES, 'pages ' .. slot, 'max ' .. slot, 'dropped ' .. slot)
  local state, again_at, why = admission.look(step, place, waiting > 0)
  reply[i - 1] = cjson.encode({
    slot = place, waiting = waiting, next_in = again_at and math.max(0, again_at - slots.now()) or 0, why = why or '',
    blocked_for = math.max(0, state.blocked - slots.now()), is_set = state.is_set, active = state.active,
    pages = number_of(pages[1], nil), max_pages = number_of(pages[2], nil), dropped = number_of(pages[3], 0),
    block_reason = state.block_reason, is_learnt = state.is_learnt, crawl_delay = state.robots, throttle = state.throttle,
    owner = state.pending > 0 and state.owner or '', delay = (is_known or state.sets_delay or limits.has_own_delay(state)) and state.delay or nil,
    jitter = is_known and state.jitter or nil, concurrency = (is_known or state.concurrency > 0) and state.concurrency or nil,
  })
end
return reply
