-- Needs: keys, queue, waiting, clearing, seeds, seen, filter, fleet, places, events
-- A worker joins the frontier, which is made if there is none.
--
-- ARGV  worker, lease timeout (ms), age of the worker's process (ms), busy (0/1), flush (0/1),
--       persist (0/1), how long the server is up (ms), about this worker (text),
--       what the frontier's keys begin with, the spider's name,
--       how many workers may be at it (0: any number), whether one more is refused (0/1), when this worker came into
--       the line for a place, as it was told (empty: it was not), how many events are kept
--       n, then n times: field, value    what the frontier has to have been made with
-- Reply {problem, …}
--       {'type', key, its type, the type it should have}: nothing was changed
--       {'converting', from}: the queue is being converted from this serializer, or the frontier imported
--       ('import'); nothing was changed
--       {'mismatch', field, the frontier's value, this worker's}: nothing was changed
--       {'wait', …}, {'full', …}, {'stopped'}, {'finished'}: see places.refusal()
--       {'', flushed (0/1), whose its filter is as well, so that it was not cleared, waiting, seen, seeds,
--        leased, workers, entries in the failed list,
--        requests that an earlier worker of this crawl could not share}
-- May be repeated: a reply may be lost.
local worker, lease_ms, age, busy = argument(), number(), number(), argument()
local flush, persist, up, about = argument(), argument(), number(), argument()
local frontier, spider = argument(), argument()
local most, is_refused, came, max_events = number(), argument() == '1', argument(), number()

local seeds_count, seeds_problem = seeds.count()
local problem = wrong_type(types())
  or wrong_type({{DUPEFILTER, 'set'}, {SEEN_STATE, 'hash'}, {SEEN_CLEARED, 'list'}, {SEEN_FRONTIERS, 'set'}})
  or seeds_problem
if problem then return {'type', unpack(problem)} end

local now = server_time()
-- A server that was started a moment ago was away before: nobody could get through in time.
local was_away = up < lease_ms
local others = redis.call('ZCOUNT', WORKERS, was_away and '-inf' or '(' .. now, '+inf')
local own_deadline = tonumber(redis.call('ZSCORE', WORKERS, worker))
if own_deadline and (was_away or own_deadline > now) then others = others - 1 end

-- A worker started before the last finish is late for that crawl: it must not begin it anew. One
-- started after it begins a new crawl.
-- Where it stands in META as well, nobody has cleared up: the last of its workers died, or was not heard, or
-- is still idle.
local finish, uncleared_finish = tonumber(redis.call('GET', FINISHED)), tonumber(redis.call('HGET', META, 'finished'))
local leased, reading = fleet.count()
local idle = leased + reading + redis.call('EXISTS', REQUESTS, SLOTS, DELAYED) == 0
uncleared_finish = idle and uncleared_finish
finish = math.max(finish or 0, uncleared_finish or 0)
local anew = finish > 0 and now - age >= finish and (others == 0 or uncleared_finish)
local flushed = flush == '1' and others == 0
-- Half of the queue would be read as what it is not; half of a frontier is none.
local converted_from = redis.call('HGET', CONVERTING, 'from')
if converted_from and not flushed then return {'converting', converted_from} end
local uncleared = anew and uncleared_finish and persist ~= '1'

local made_with = {}
for _ = 1, number() do
  local field, value = argument(), argument()
  local there = redis.call('HGET', META, field)
  -- If nobody goes on as before, what was filtered exactly can be filtered compactly; and what was queued without
  -- slots waits with those whose slot no worker knows.
  local converts = others == 0
    and (field == 'dupefilter' and there == 'exact' and value == 'compact' or field == 'format' and there == '5')
  if there and there ~= value and not flushed and not (uncleared and others == 0) and not converts then
    return {'mismatch', field, there, value}
  end
  made_with[#made_with + 1] = {field, value}
end

-- Only now: a queue of another class is better named than by its type.
-- A flush is also how to change it.
problem = not flushed and queue.type and wrong_type({{REQUESTS, queue.type}})
  or not (flushed or uncleared) and wrong_type(filter.types())
if problem then return {'type', unpack(problem)} end

despite_full_memory()
local no_place = most > 0 and places.refusal(
  worker, most, is_refused, came, now, lease_ms, was_away, finish, others, about)
if no_place then return no_place end
if was_away then
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '-inf', now)) do
    redis.call('ZADD', WORKERS, now + lease_ms, name)
  end
end

if flushed then
  for _, name in ipairs(redis.call('ZRANGE', WORKERS, 0, -1)) do
    if name ~= worker then events.tell_gone(name, 'worker_lost') end
    redis.call('DEL', LEASES .. name, WORKER .. name)
  end
  clearing.clear()
  redis.call('UNLINK', CONVERTING, DELAYED, WORKERS)
end
local kept_for = ''
if flushed or uncleared then
  redis.call('DEL', COUNTER, HISTORY, META)
  -- A worker of the finished crawl that is still idle has a part in this one, and knows nothing of what was seen.
  kept_for = seen.clear(frontier)
end
seen.join(frontier)
filter.open()
if flushed or anew then
  redis.call('DEL', STARTED, FINISHED, PAGES, SLOT_LIMITS)
  redis.call('HDEL', META, 'pages', 'finished', 'lost', 'found', 'unshared', 'unshared_reason', 'limited', 'rewound',
    'stalled', 'no_memory', 'no_room')
end
-- What settings said of slots, those say anew that join now.
if others == 0 then
  redis.call('HSET', META, 'rules', exact_time())
  redis.call('HDEL', META, 'slot_default')
  -- A fleet that starts may do as much as one may; see exchange/closing.lua.
  redis.call('HDEL', META, 'run_pagecount', 'run_itemcount', 'run_errorcount', 'run_reached')
  redis.call('HSET', META, 'run_since', now, 'going_since', now)
end
-- A block outlives the crawl in which it was set.
if redis.call('EXISTS', SLOTS_BLOCKED) == 1 then redis.call('HSET', META, 'limited', '1') end
for _, pair in ipairs(made_with) do redis.call('HSET', META, pair[1], pair[2]) end
-- For who looks into it, and is not set up as its workers are.
redis.call('HSET', META, 'spider', spider, 'requests_key', REQUESTS, 'dupefilter_key', DUPEFILTER,
  'start_urls_keys', table.concat(SEEDS, '\n'), 'slot_states', string.sub(SLOT, 1, -2), 'max_events', max_events)
if redis.call('HEXISTS', META, 'epoch') == 0 then change_epoch() end

if most > 0 then
  redis.call('HSET', META, 'max_workers', most, 'places_key', PLACES)
else
  redis.call('HDEL', META, 'max_workers', 'places_key')
end
redis.call('ZADD', WORKERS, now + lease_ms, worker)
redis.call('HDEL', WORKER .. worker, 'reclaimed', 'left')
redis.call('HSET', WORKER .. worker, 'exchange', 0, 'busy', busy, 'about', about,
  'joined', exact_time(), 'heard', now, 'lease', lease_ms)
if not own_deadline then
  -- Who was started before the last finish, and comes after it, begins nothing.
  local is_late = finish > 0 and now - age < finish
  if flushed or anew or redis.call('HEXISTS', META, 'began') == 0 and not is_late then
    redis.call('HSET', META, 'began', now, 'going_since', now)
    events.tell('crawl_started', worker)
  end
  events.tell('worker_joined', worker)
end
-- It was started before the finish, and comes after it: it does not know when that was.
if finish > 0 and now - age < finish then redis.call('HSET', WORKER .. worker, 'over', 0) end
redis.call('PEXPIRE', WORKER .. worker, math.max(86400000, 10 * lease_ms))
return {
  '', flushed and 1 or 0, kept_for, waiting.length(), filter.count(), seeds_count, flushed and 0 or leased,
  redis.call('ZCARD', WORKERS), redis.call('LLEN', FAILED), tonumber(redis.call('HGET', META, 'unshared')) or 0,
}
