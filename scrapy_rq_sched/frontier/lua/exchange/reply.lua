-- Needs: keys, slots/slots, slots/lanes, slots/own_slots, slots/waiting, slots/in_slots, slots/site_answers, store/seeds, store/items, store/groups, store/pools, filter, fleet/fleet, fleet/crawl, fleet/record, fleet/deny_list, number_of, exchange/header, exchange/begin, exchange/conditions, exchange/caps, exchange/followers
-- The end of an exchange: note the state of the crawl, and reply.

-- How many exchanges of a worker, whose requests wait for items, look once for uses of items that have ended.
local CHECKED = 64

-- -> how many items to count: those that Redis stores, or else those that the worker has scraped
local function items_of(step)
  return (header.items_as or header.feed) and step.released or header.scraped or 0
end

-- Add the finished pages, their items and the errors to the latest ten seconds, at the head of the list. The time for this
-- does not grow with the crawl.
local function note_pages(step, scraped)
  local second = math.floor(step.now / 1000)
  local ten_seconds = second - second % 10
  local logged = header.errors or 0
  local latest, pages, items, errors, rest = string.match(step.pages or '', '^(%d+) (%d+) %d+ (%d+) (%d+)(.*)$')
  if not latest then
    -- A worker of an older version has written it.
    latest, pages = string.match(step.pages or '', '^(%d+) (%d+)')
    items, errors, rest = 0, 0, ' 0 0 0'
  end
  if tonumber(latest) == ten_seconds then
    redis.call('LSET', PAGES, 0, string.format(
      '%s %d %d %d %d%s', latest, pages + header.pages, step.waiting, items + scraped, errors + logged, rest))
    return
  end
  if step.pages then record.add_to_chart(step.pages) end
  local items_before, errors_before = string.match(rest, ' (%d+) (%d+)$')
  redis.call('LPUSH', PAGES, string.format(
    '%d %d %d %d %d %d %d %d', ten_seconds, header.pages, step.waiting, scraped, logged, step.now % 10000,
    (items_before or 0) + items, (errors_before or 0) + errors))
  redis.call('LTRIM', PAGES, 0, 360)
end

local function note(step, finished)
  if step.over then return in_slots.write() end
  local is_new = step.made and not step.repeated
  local counts = is_new and header.pages > 0
  local scraped = items_of(step)
  if counts or is_new and (scraped > 0 or header.errors) then note_pages(step, scraped) end
  local fields = {
    'waiting', whole(step.waiting), 'seen', whole(step.seen),
    'pages', whole(number_of(step.meta.pages, 0) + (counts and header.pages or 0)),
  }
  in_slots.write(fields)
  if not step.repeated then slots.keep_time(fields) end
  redis.call('HSET', META, unpack(fields))
  -- Note the end only if this worker closes because of it: a worker that stays open, as a RedisSpider does, waits for
  -- more. A worker that missed the end of its crawl does not know when that was.
  if finished and header.finishing and step.before.over ~= '0' then crawl.note_finish(step.now) end
end

-- -> the other worker that has the turns of the only slot with waiting requests; nil if there are several slots
local function owner_of_the_slot(step, n_slots)
  if n_slots ~= 1 then return nil end
  local place = redis.call('ZRANGE', SLOTS, 0, 0)[1]
  local owner = redis.pcall('HGET', SLOT .. slots.slot_of(place), 'owner')
  return type(owner) == 'string' and owner ~= step.worker and owner or nil
end

-- -> whether all waiting requests need what this worker does not offer
local function is_all_for_others(offers)
  if waiting.length_of('') > 0 or redis.call('ZCOUNT', SLOTS, '-inf', '(inf') > 0 then return false end
  for _, key in ipairs(lanes.keys(offers)) do
    if redis.call('EXISTS', key) == 1 then return false end
  end
  return true
end

-- -> the number of entries that were set back, how many of these are not due, and when the first of them is due
local function parked(step)
  local count = (step.has_rare or tally.parked) and redis.call('ZCARD', DELAYED) or 0
  if count == 0 then return 0, nil, nil end
  local after = '(' .. math.floor(slots.now())
  local later = redis.call('ZCOUNT', DELAYED, after, '(inf')
  if later == 0 then return count, nil, nil end
  return count, later, tonumber(redis.call('ZRANGEBYSCORE', DELAYED, after, '(inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
end

-- -> the number; nil for 0, which the reply leaves out: to write a number as text takes as long as a short command
local function unless_zero(number)
  if number ~= 0 then return number end
end

-- The fields of the reply are those of Reply in frontier/replies.py. duplicates: see exchange/pushes.lua; leased, busy: left
-- out if they were not counted; forgotten: entries removed from the failed list; seeds_problem: a type and a key; epoch: ''
-- if the frontier is gone: its crawl has finished without this worker, or somebody has cleared it
local function reply(step)
  local seeds_count, problem = seeds.count()
  local count, later, next_parked = parked(step)
  local leased, busy, finished = nil, nil, nil
  flush()
  step.waiting = waiting.length()
  if header.pushes > 0 or header.forgotten or step.has_rare then step.seen = filter.count() end
  -- The fleet is finished if there are no requests and seeds anywhere, and no worker can still add any.
  if step.waiting == 0 then
    leased, busy = fleet.lately(step.now)
    finished = leased + count + seeds_count + busy == 0 and (not step.meta.item_parts or items.unmoved() == 0)
      and (not groups.are_used() or followers.are_over(step))
  end
  if step.lost == '' and not step.over and in_slots.missing >= begin.NOTICED then
    step.lost = string.format('requests %.0f', in_slots.missing)
  end
  note(step, finished)
  local is_limited, in_vain = step.is_limited, header.want > 0 and #step.leases == 0
  local offers = step.has_pools and pools.offers(header.offers) or header.offers
  local next_turn = is_limited and own_slots.next(step.worker, in_vain, offers) or nil
  local is_item_awaited, next_item = false, nil
  if step.has_pools then is_item_awaited, next_item = pools.awaited(header.offers) end
  if is_item_awaited and in_vain and header.exchange % CHECKED == 0 then pools.check_uses() end
  if next_item then next_turn = math.min(next_turn or math.huge, next_item) end
  local n_slots = is_limited and slots.count() or nil
  local sleeps = next_turn and next_turn > slots.now()
  if not step.over then conditions.note(step, leased, sleeps) end
  local is_for_others = in_vain and step.waiting > 0 and slots.has_lanes and is_all_for_others(offers)
  local why = step.why or is_for_others and is_item_awaited and 'pool' or sleeps and 'delay' or is_for_others and 'needs' or nil
  local head = cjson.encode({
    membership = unless_zero(step.membership), duplicates = step.duplicates, stored = unless_zero(step.stored),
    full = step.full, order = step.order, lost = step.lost, returned = unless_zero(step.returned),
    dead = table.concat(step.dead, ' '), waiting = unless_zero(step.waiting), parked = unless_zero(count),
    seeds = unless_zero(seeds_count), workers = step.workers, leased = leased, busy = busy, finished = finished or nil,
    set_aside = unless_zero(tally.set_aside), forgotten = unless_zero(tally.dropped),
    next_turn = next_turn, now = (is_limited or next_parked or next_item or header.columns) and slots.now() or nil,
    later = later, next_parked = next_parked, why = why,
    limits = step.limits_sent, slots = n_slots,
    wants_policy = step.wants_policy or nil, other_limits = step.other_limits or nil,
    limits_in_force = step.limits_in_force or nil,
    owner = in_vain and owner_of_the_slot(step, n_slots) or nil,
    limits_changed = step.meta.limits_changed or nil, given = step.given, given_outside = step.given_outside,
    ask_outside_at = step.ask_outside_at, refused_outside = step.refused_outside, ask_at = step.ask_at,
    backed_off = step.backed_off, freed = step.freed, recalled = step.meta.recalled and site_answers.recalled(step) or nil,
    denied = (step.meta.denied or header.denied) and deny_list.news(step, header.denied) or nil,
    is_capped = finished and header.max_pages and caps.have_ended(step) or nil,
    stop_reason = step.order == 'stop' and not step.before.stop and step.meta.stop_reason or nil,
    garbage = tally.garbage ~= '' and tally.garbage or nil, unmet = step.unmet, items = step.items, no_items = step.no_items,
    unmoved = step.unmoved, group_news = step.group_news, groups_finished = step.groups_finished,
    pool_items = step.pool_items, own_items = step.own_items, next_item = next_item, lacks_item = step.lacks_item,
    retired_items = step.retired_items, wants_pools = step.wants_pools, run = step.run,
    seeds_problem = problem and problem[2] .. ' ' .. problem[1] or '', epoch = step.over and step.membership > 0 and '' or tally.epoch or step.meta.epoch or '',
  })
  return {head, step.leases}
end

return reply
