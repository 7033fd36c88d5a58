-- Needs: keys, slots, own_slots, waiting, in_slots, seeds, filter, fleet, ending, number_of, exchange/said, exchange/begin, exchange/limited, exchange/admission, exchange/changes
-- The end of an exchange: note the state of the crawl, and reply.

-- Add the finished pages to the latest ten seconds, at the head of the list. The time for this does not grow with the
-- crawl.
local function note_pages(turn)
  local second = math.floor(turn.now / 1000)
  local ten_seconds = second - second % 10
  local latest, done = string.match(turn.pages or '', '^(%d+) (%d+)')
  if tonumber(latest) == ten_seconds then
    redis.call('LSET', PAGES, 0, ten_seconds .. ' ' .. done + said.pages .. ' ' .. turn.waiting)
  else
    redis.call('LPUSH', PAGES, ten_seconds .. ' ' .. said.pages .. ' ' .. turn.waiting)
    redis.call('LTRIM', PAGES, 0, 360)
  end
end

local function note(turn, finished)
  if turn.over then return in_slots.settle() end
  local counts = said.pages > 0 and turn.made and not turn.repeated
  if counts then note_pages(turn) end
  local fields = {
    'waiting', turn.waiting, 'seen', turn.seen,
    'pages', number_of(turn.meta.pages, 0) + (counts and said.pages or 0),
  }
  in_slots.settle(fields)
  if not turn.repeated then slots.keep_time(fields) end
  redis.call('HSET', META, unpack(fields))
  -- Note the end only if this worker closes because of it: a worker that stays open, as a RedisSpider does, waits for
  -- more. A worker that missed the end of its crawl does not know when that was.
  if finished and said.finishing and turn.before.over ~= '0' then ending.note(turn.now) end
end

-- -> the other worker that has the turns of the only slot with waiting requests; nil if there are several slots
local function owner_of_the_slot(turn, n_slots)
  if n_slots ~= 1 then return nil end
  local owner = redis.pcall('HGET', SLOT .. redis.call('ZRANGE', SLOTS, 0, 0)[1], 'owner')
  return type(owner) == 'string' and owner ~= turn.worker and owner or nil
end

-- -> the number of entries that were set back, how many of these are not due, and when the first of them is due
local function parked(turn)
  local count = (turn.has_rare or tally.parked) and redis.call('ZCARD', DELAYED) or 0
  if count == 0 then return 0, nil, nil end
  local after = '(' .. math.floor(slots.now())
  local later = redis.call('ZCOUNT', DELAYED, after, 'inf')
  if later == 0 then return count, nil, nil end
  return count, later, tonumber(redis.call('ZRANGEBYSCORE', DELAYED, after, 'inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
end

-- The fields of the reply are those of Reply in replies.py. leased, busy: -1 if they were not counted; forgotten:
-- entries removed from the failed list; seeds_problem: a type and a key; epoch: '' if the frontier is gone: its crawl
-- has finished without this worker, or somebody has cleared it
local function reply(turn)
  local seeds_count, problem = seeds.count()
  local delayed, later, next_parked = parked(turn)
  local leased, busy, finished = -1, -1, false
  flush()
  turn.waiting, turn.seen = waiting.length(), filter.count()
  -- The fleet is finished if there are no requests and seeds anywhere, and no worker can still add any.
  if turn.waiting == 0 then
    leased, busy = fleet.lately(turn.now)
    finished = leased + delayed + seeds_count + busy == 0
  end
  if turn.lost == '' and not turn.over and in_slots.missing >= begin.NOTICED then
    turn.lost = string.format('requests %.0f', in_slots.missing)
  end
  note(turn, finished)
  local is_limited, in_vain = limited.is_on(turn), said.want > 0 and #turn.leases == 0
  local next_turn = is_limited and own_slots.next(turn.worker, in_vain) or nil
  local n_slots = is_limited and slots.count() or nil
  if not turn.over then changes.note(turn, leased, next_turn) end
  local why = in_vain and (admission.why or next_turn and next_turn > slots.now() and 'delay') or nil
  local head = cjson.encode({
    standing = turn.standing, duplicates = turn.duplicates, stored = turn.stored, full = turn.full,
    told = turn.told, lost = turn.lost, returned = turn.returned, dead = table.concat(turn.dead, ' '),
    waiting = turn.waiting, delayed = delayed, seeds = seeds_count, workers = turn.workers,
    leased = leased, busy = busy, finished = finished, set_aside = tally.set_aside, forgotten = tally.dropped,
    next_turn = next_turn, now = (is_limited or next_parked) and slots.now() or nil,
    later = later, next_parked = next_parked, why = why,
    limits = admission.told, slots = n_slots,
    wants_policy = turn.wants_policy or nil, other_limits = turn.other_limits or nil,
    owner = in_vain and owner_of_the_slot(turn, n_slots) or nil,
    limits_changed = turn.meta.limits_changed or nil, given = limited.given, ask_at = limited.ask_at,
    stop_reason = turn.told == 'stop' and turn.meta.stop_reason or nil,
    garbage = tally.garbage ~= '' and tally.garbage or nil,
    seeds_problem = problem and problem[2] .. ' ' .. problem[1] or '', epoch = turn.over and turn.standing > 0 and '' or epoch or turn.meta.epoch or '',
  })
  return {head, turn.leases}
end

return reply
