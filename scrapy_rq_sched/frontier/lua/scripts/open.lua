-- Needs: keys, queue, slots/slots, slots/lanes, slots/waiting, slots/clear_waiting, store/seeds, store/seen, store/items, store/groups, filter, fleet/fleet, fleet/permits, fleet/events, fleet/crawl, fleet/record, fleet/crawls, fleet/lost, fleet/renew, fleet/runs, fleet/deny_list
-- A worker joins the frontier, which is created if it does not exist.
--
-- ARGV  worker, lease timeout (ms), age of the worker's process (ms), busy (0/1), flush (0/1),
--       persist (0/1), how long the server is up (ms), description of the worker (text),
--       the prefix of the frontier's keys, the spider's name,
--       maximum number of workers (0: no limit), whether a further worker is refused (0/1), when this worker joined the
--       line for a place (empty: it is not in line), how many events are kept,
--       the run of the worker's supervisor, the dead worker that its supervisor replaces by it, what the worker offers, as
--       the name of a lane (each may be empty), the limits of the history of crawls (META's field history), the settings
--       that the history shows (JSON), the limits of a slot by default in the worker's settings (text),
--       n, then n times: field, value    the settings that all workers of the frontier must share
-- Reply {problem, …}
--       {'type', key, its type, the right type}: nothing was changed
--       {'converting', from}: the queue is being converted from this serializer, or the frontier imported
--       ('import'); nothing was changed
--       {'mismatch', field, the frontier's value, this worker's value, unflushed}: nothing was changed
--       {'wait', …}, {'full', …}, {'stopped'}, {'finished'}: see permits.refusal()
--       {'', flushed (0/1), another frontier that uses the filter, so that it was not cleared, waiting, seen, seeds,
--        leased, workers, entries in the failed list,
--        requests that earlier workers of this crawl could not share, unflushed, the number of the crawl in the history,
--        a live worker whose limits by default are others, these limits (both may be empty)}
--       unflushed: why the frontier is not cleared though *flush* is 1: see why_not_flush(); else empty
-- May be repeated, because a reply may be lost.
local worker, lease_ms, age, busy = argument(), number(), number(), argument()
local flush, persist, up, about = argument(), argument(), number(), argument()
local frontier, spider = argument(), argument()
local most, is_refused, came, max_events = number(), argument() == '1', argument(), number()
local run, replaced, offers = argument(), argument(), argument()
local history, shown_settings, default_limits = argument(), argument(), argument()

local seeds_count, seeds_problem = seeds.count()
local problem = wrong_type(types())
  or not filter.is_of_any_type and wrong_type({{DUPEFILTER, 'set'}})
  or wrong_type({{SEEN_STATE, 'hash'}, {SEEN_CLEARED, 'list'}, {SEEN_FRONTIERS, 'set'}})
  or seeds_problem
if problem then return {'type', unpack(problem)} end

local now = server_time()
-- A server that was started a moment ago was down before, and no worker could reach it in time.
local was_away = up < lease_ms
local others = redis.call('ZCOUNT', WORKERS, was_away and '-inf' or '(' .. now, '+inf')
local own_deadline = tonumber(redis.call('ZSCORE', WORKERS, worker))
if own_deadline and (was_away or own_deadline > now) then others = others - 1 end

-- A worker that was started before the last finish is late for that crawl, and must not begin it again. A worker that
-- was started after the finish begins a new crawl. If META also has the finish, the finished crawl was not cleared: its
-- last worker died, was not heard, or is still idle.
local finish, uncleared_finish = tonumber(redis.call('GET', FINISHED)), tonumber(redis.call('HGET', META, 'finished'))
local leased, reading = fleet.count()
local idle = leased + reading + redis.call('EXISTS', REQUESTS, SLOTS, DELAYED, FOLLOWERS, GROUPS_EMPTIED, GROUP_NEWS) == 0
uncleared_finish = idle and uncleared_finish
finish = math.max(finish or 0, uncleared_finish or 0)
-- Workers that take no part in a crawl do not keep a new one from beginning.
local late = finish > 0 and fleet.late(worker, was_away and '-inf' or '(' .. now) or {}
-- While any worker, alive or dead, holds requests, the crawl goes on.
local anew = finish > 0 and leased == 0 and now - age >= finish and (others == #late or uncleared_finish)
local is_late = finish > 0 and now - age < finish
local runs_of_late = anew and #late > 0 and redis.call('HGET', META, 'runs')
local took_part = runs.has(run) or replaced ~= '' and lost.has_joined(replaced)

-- A flush belongs to the start of a crawl: a crawl is not cleared while anything of it runs or may come back.
-- -> '' if this worker clears the frontier; else 'running': other workers do; 'late': the crawl that it was started
--    for is finished; 'run': its supervisor's other workers have taken part; 'lost <ms> <worker>': that worker may come
--    back within this time
local function why_not_flush()
  if others > 0 then return 'running' end
  -- A repetition, after which the answer is the same.
  local before = own_deadline and redis.call('HGET', WORKER .. worker, 'unflushed')
  if before then return before end
  if anew then return '' end
  if run ~= '' and is_late then return 'late' end
  if took_part then return 'run' end
  local name, remaining = lost.find(replaced, now)
  return name and string.format('lost %.0f %s', remaining, name) or ''
end
local unflushed = flush == '1' and why_not_flush()
local flushed = unflushed == ''
-- A half-converted queue would be read with the wrong serializer, and a half-imported frontier is incomplete.
local converted_from = redis.call('HGET', CONVERTING, 'from')
if converted_from and not flushed then return {'converting', converted_from} end
local uncleared = anew and uncleared_finish and persist ~= '1'
-- A frontier without requests and fingerprints binds no worker to its settings: a worker was killed before it began.
local is_bare = others + leased == 0 and redis.call('EXISTS', REQUESTS, SLOTS, DELAYED, FOLLOWERS, GROUP_NEWS, DUPEFILTER, SEEN_STATE) == 0

local made_with = {}
for _ = 1, number() do
  local field, value = argument(), argument()
  local there = redis.call('HGET', META, field)
  -- If no other worker is running, an exact filter can be converted to a compact one. And requests of format 5, which
  -- were queued without slots, wait with the requests without a known slot.
  local converts = others == 0
    and (field == 'dupefilter' and there == 'exact' and value == 'compact' or field == 'format' and there == '5'
      or field == 'FRONTIER_ITEMS' and (value ~= '' or items.unmoved() == 0))
  if there and there ~= value and not flushed and not (uncleared and others == 0) and not (converts or is_bare) then
    return {'mismatch', field, there, value, unflushed or ''}
  end
  made_with[#made_with + 1] = {field, value}
end

-- Check these types only now: for a queue of another class, the mismatch above is the better message. And a flush may
-- change the queue class.
problem = not flushed and queue.type and wrong_type({{REQUESTS, queue.type}})
  or not (flushed or uncleared) and wrong_type(filter.types())
if problem then return {'type', unpack(problem)} end

despite_full_memory()
if replaced ~= '' then
  lost.replace(replaced)
  if most > 0 then came = permits.inherit(worker, replaced, came, now, lease_ms) end
end
local no_place = most > 0 and permits.refusal(
  worker, most, is_refused, came, now, lease_ms, was_away, finish, others, about)
if no_place then return no_place end
if was_away then renew(WORKERS, now, lease_ms) end

if uncleared_finish and (flushed or anew) then crawl.tell_finish() end
if flushed then
  crawls.write('cleared', nil, now)
  record.clear()
  for _, name in ipairs(redis.call('ZRANGE', WORKERS, 0, -1)) do
    if name ~= worker then events.tell_gone(name, 'worker_lost') end
    fleet.forget(name)
  end
  clear_waiting.clear()
  items.drop_all()
  redis.call('UNLINK', CONVERTING, DELAYED, WORKERS)
end
local kept_for = ''
if flushed or uncleared then
  redis.call('DEL', COUNTER, HISTORY, META)
  if uncleared then items.drop_all() end
  -- An idle worker of the finished crawl takes part in the new one. A new epoch (see below) clears its cache.
  kept_for = seen.clear(frontier)
end
seen.join(frontier)
filter.open()
if flushed or anew then
  redis.call('DEL', STARTED, FINISHED, PAGES, SLOT_LIMITS, SLOT_PAGES)
  redis.call('HDEL', META, 'pages')
  crawl.forget_finish(finish)
  groups.begin_anew(flushed)
  lost.clear()
end
-- The limits of slots in the settings may have changed: the workers that join now send theirs. In a new crawl, those of
-- named slots are gone.
if flushed or anew or others == 0 then
  -- Slots still sleep until the turns of the old limits.
  if not (flushed or anew) and slots.is_limit(redis.call('HGET', META, 'slot_default')) then
    redis.call('HSET', META, 'limited', '1')
  end
  redis.call('HDEL', META, 'rules', 'slot_default', 'slot_patterns')
end
if others == 0 then redis.call('HSET', META, 'going_since', now) end
-- A fleet that starts has its full FRONTIER_CLOSE_… limits: see exchange/close_limits.lua. If its supervisor has only restarted
-- this worker, or if another one has left in order to be started again, it is the same fleet.
if flushed or anew or others == #late and not took_part and not lost.is_any_returning(replaced, now) then
  redis.call('HDEL', META, 'run_pagecount', 'run_itemcount', 'run_errorcount', 'run_reached')
  redis.call('HSET', META, 'run_since', now)
end
if runs_of_late then redis.call('HSET', META, 'runs', runs_of_late) end
runs.add(run)
-- Items of an earlier crawl may still have to be moved.
if items.unmoved() > 0 then redis.call('HSET', META, 'item_parts', 1) end
deny_list.join()
slots.restore_lanes()
groups.restore()
lanes.offer(worker, offers, now + lease_ms)
slots.keep_blocks()
for _, pair in ipairs(made_with) do redis.call('HSET', META, pair[1], pair[2]) end
-- For commands that run without the workers' settings.
redis.call('HSET', META, 'spider', spider, 'requests_key', REQUESTS, 'dupefilter_key', DUPEFILTER,
  'start_urls_keys', table.concat(SEEDS, '\n'), 'slot_states', string.sub(SLOT, 1, -2), 'max_events', max_events,
  'history', history)
-- Late workers remember the start requests of the finished crawl.
if anew or redis.call('HEXISTS', META, 'epoch') == 0 then change_epoch() end
if anew then fleet.take_part(late) end

if most > 0 then
  redis.call('HSET', META, 'max_workers', most, 'places_key', PLACES)
else
  redis.call('HDEL', META, 'max_workers', 'places_key')
end
redis.call('ZADD', WORKERS, now + lease_ms, worker)
redis.call('HDEL', WORKER .. worker, 'reclaimed', 'left')
redis.call('HSET', WORKER .. worker, 'exchange', 0, 'busy', busy, 'about', about,
  'joined', exact_time(), 'heard', now, 'lease', lease_ms, 'records_end', 1, 'limits', default_limits)
if unflushed then redis.call('HSET', WORKER .. worker, 'unflushed', unflushed) end
if not own_deadline then
  -- A worker that was started before the last finish, and joins after it, begins no crawl.
  if flushed or anew or redis.call('HEXISTS', META, 'began') == 0 and not is_late then
    crawl.begin(worker, now)
  end
  events.tell('worker_joined', worker)
end
local number = not is_late and record.joined(worker, about, shown_settings, now)
-- A late worker does not know when its crawl finished: see exchange/reply.lua.
if is_late then redis.call('HSET', WORKER .. worker, 'over', 0) end
redis.call('PEXPIRE', WORKER .. worker, math.max(86400000, 10 * lease_ms))
local other, other_limits = fleet.with_another(worker, 'limits', default_limits, now)
return {
  '', flushed and 1 or 0, kept_for, waiting.length(), filter.count(), seeds_count, flushed and 0 or leased,
  redis.call('ZCARD', WORKERS), redis.call('LLEN', FAILED), tonumber(redis.call('HGET', META, 'unshared')) or 0,
  unflushed or '', number or '', other or '', other_limits or '',
}
