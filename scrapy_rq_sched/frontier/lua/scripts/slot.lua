-- Needs: keys, slots/slots, fleet/events, slots/shared_slots
-- Change the limits of a slot during the crawl, or block it.
--
-- ARGV  slot, then one of:
--       'set', delay (ms), jitter, concurrency, pages: '-' is the limit in the settings. Valid until the crawl is finished
--       'reset': the limits in the settings apply again
--       'block', for how long (ms): 0 unblocks it
-- Reply 1
local slot, change = argument(), argument()
local problem = wrong_type(types()) or wrong_type({{SLOT .. slot, 'hash'}})
if problem then return wrong_type_error(problem) end
despite_full_memory()
local now = slots.now()

-- An older version has written the limits that were set over those of the settings. Then the workers send the limits in
-- their settings again, before they are given any request.
local function forget_older_form()
  if string.sub(redis.call('HGET', SLOT_LIMITS, slot) or '', -4) ~= ' set' then return end
  redis.call('HDEL', SLOT_LIMITS, slot)
  redis.call('HDEL', META, 'rules')
end

if change == 'set' then
  local delay, jitter, concurrency, pages = argument(), argument(), argument(), argument()
  forget_older_form()
  if pages ~= '-' then
    redis.call('HSET', SLOT_PAGES, 'max ' .. slot, pages)
    redis.call('HSET', META, 'caps', '1')
    if delay == '-' and jitter == '-' and concurrency == '-' then return 1 end
  end
  -- A limit that is not named keeps what was set before.
  local before = {string.match(redis.call('HGET', SLOT_LIMITS, slots.SET .. slot) or '', '^(%S+) (%S+) (%S+)$')}
  local its = {delay, jitter, concurrency}
  for i, value in ipairs(before) do
    if its[i] == '-' then its[i] = value end
  end
  redis.call('HSET', SLOT_LIMITS, slots.SET .. slot, table.concat(its, ' '))
  -- If the old delay was longer, do not wait for its end.
  local tat = tonumber(redis.call('HGET', SLOT .. slot, 'tat') or '')
  if tonumber(delay) and tat and tat > now + delay then
    redis.call('HSET', SLOT .. slot, 'tat', string.format('%.3f', now + delay), 'delay', delay)
  end
elseif change == 'reset' then
  redis.call('HDEL', SLOT_LIMITS, slots.SET .. slot)
  redis.call('HDEL', SLOT_PAGES, 'max ' .. slot)
  forget_older_form()
elseif change == 'block' then
  local period = number()
  -- This is also true if the block has expired, but no worker has recorded that event yet.
  local was_blocked = (tonumber(redis.call('HGET', SLOT .. slot, 'blocked') or '') or 0) > 0
  if period > 0 then
    events.tell('slot_blocked', nil, {slot = slot, seconds = period / 1000, reason = 'by an operator'})
  elseif was_blocked then
    events.tell('slot_free', nil, {slot = slot})
  end
  redis.call('HSET', SLOT .. slot, 'blocked', string.format('%.0f', period > 0 and now + period or 0))
  redis.call('HDEL', SLOT .. slot, 'block_reason')
  -- An operator who ends a block knows better than what the site's answers have led to.
  if period == 0 then redis.call('HDEL', SLOT .. slot, 'learnt') end
  redis.call('PEXPIRE', SLOT .. slot, string.format('%.0f', math.max(redis.call('PTTL', SLOT .. slot), period + 600000)))
  if period > 0 then slots.note_block(now + period) end
end
-- Because of this change, workers give back their ready requests, which then wait for the new limits.
redis.call('HSET', META, 'limited', '1', 'limits_changed', exact_time())
slots.at(slot, now)
shared_slots.moved(slot)
flush()
return 1
