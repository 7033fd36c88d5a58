-- Needs: keys, queue, slots/slots, slots/waiting, slots/in_slots, filter, store/groups, store/pools, store/items, exchange/header
-- Decide whether to refuse an exchange, before anything is changed. This reads the state of the crawl and of the
-- worker, which also shows whether a key has a wrong type.
--
-- check(step)  -> nil, or an error

-- -> nil, or the error for a key that could not be read; in most cases it has a wrong type
local function read(step)
  local meta = redis.pcall('HMGET', META, 'epoch', 'state', 'stop', 'pages', 'exporting', 'finished', 'waiting',
    'seen', 'lost', 'limited', 'rewound', 'in_slots', 'clock', 'clock_ahead', 'rules',
    'slot_default', 'limits_changed', 'stop_reason', 'no_memory', 'no_room', 'stalled', 'going_since', 'format',
    'in_slots_estimated', 'item_parts', 'began', 'item_ids', 'item_ids_forgotten', 'recalled', 'caps', 'denied', 'lanes', 'unmet', 'groups', 'pools')
  local own = redis.pcall('HMGET', step.own, 'exchange', 'reclaimed', 'over', 'joined', 'pages', 'gone', 'left', 'stop')
  if has_failed(meta) then return meta end
  step.format = meta[23]
  in_slots.know(meta[12], meta[24])
  slots.know(meta[13], meta[14], meta[32], header.has_lanes)
  groups.know(meta[34], meta[1])
  pools.know(meta[35])
  step.has_pools = meta[35] and true
  step.deadline, step.holds = redis.pcall('ZSCORE', WORKERS, step.worker), redis.pcall('HLEN', step.held)
  step.waiting, step.seen, step.pages = waiting.length(redis.pcall), filter.count(), redis.pcall('LINDEX', PAGES, 0)
  step.has_items = header.items_as or header.feed or meta[25]
  -- All keys in each exchange, whether it needs them or not: if a wrong type failed only some workers, these would count
  -- as dead.
  local replies = {meta, own, step.deadline, step.holds, step.waiting, step.seen, step.pages,
    redis.pcall('SCARD', STARTED), redis.pcall('STRLEN', COUNTER), redis.pcall('HLEN', SLOT_LIMITS),
    header.max_workers and redis.pcall('ZCARD', PLACES),
    step.has_items and items.length(header.items_as), step.has_items and items.fed(header.feed),
    step.has_items and redis.pcall('SCARD', ITEM_PARTS), step.has_items and redis.pcall('LLEN', ITEMS_RELEASED)}
  if header.groups or header.follows or groups.are_used() then groups.read(replies) end
  for i = 1, #replies do
    if has_failed(replies[i]) then return replies[i] end
  end
  step.named_slots = replies[10]
  step.meta = {
    epoch = meta[1], state = meta[2], stop = meta[3], pages = meta[4], exporting = meta[5],
    finished = meta[6], waiting = meta[7], seen = meta[8], lost = meta[9], limited = meta[10], rewound = meta[11],
    rules = meta[15], slot_default = meta[16], limits_changed = meta[17], stop_reason = meta[18],
    no_memory = meta[19], no_room = meta[20], stalled = meta[21], going_since = meta[22], item_parts = meta[25],
    began = meta[26], item_ids = meta[27], item_ids_forgotten = meta[28], recalled = meta[29], caps = meta[30], denied = meta[31],
    unmet = meta[33],
  }
  step.before = {
    exchange = own[1], reclaimed = own[2], over = own[3], joined = own[4], pages = own[5], gone = own[6], left = own[7],
    stop = own[8],
  }
  step.made = meta[1] and true
  step.is_limited = slots.may_be_limited(meta[10], meta[16])
  -- The worker's policy is in force, and names no slots: its limits are complete.
  step.has_policy = not header.slot_policy
    or header.slot_policy == meta[15] and string.sub(meta[15], -4) == '.0.0' and slots.is_default(meta[16])
end

local function check(step)
  step.has_rare = redis.call('EXISTS', DELAYED, HISTORY, FAILED, FINISHED, EXPORTED, CONVERTING, SLOTS_CLEARED, filter.rare()) > 0
  local failure = read(step)
  -- A version with another format has continued the crawl while this worker was silent. This comes first, because the
  -- types may be others, too.
  if step.format and step.format ~= header.format then return redis.error_reply('FORMAT ' .. step.format) end
  local problem = (failure or step.has_rare) and (wrong_type(types()) or wrong_type(filter.types())
    or wrong_type({{step.held, 'hash'}, {step.own, 'hash'}})
    or queue.type and wrong_type({{REQUESTS, queue.type}})
      or step.has_items and wrong_type(items.types(header.items_as, header.feed))
      or wrong_type(groups.types()))
  if problem then return wrong_type_error(problem) end
  if failure then return failure end
  local converted_from = step.has_rare and redis.call('HGET', CONVERTING, 'from')
  if converted_from then
    return redis.error_reply('CONVERTING ' .. (converted_from == 'import' and 'A frontier is being imported here'
      or 'The requests are being converted to another serializer'))
  end
  if step.before.gone then return redis.error_reply('GONE This worker has left the frontier') end
end

return check
