-- Needs: keys, slots/waiting, slots/clear_waiting, store/seeds, store/items, store/groups, store/pools, store/seen, fleet/fleet, fleet/permits, fleet/events, fleet/crawl, fleet/record, fleet/crawls, number_of, slots/slots, slots/shared_slots, fleet/lost
-- A worker leaves, after the exchange in which it gave its leases back. May be repeated.
--
-- ARGV  worker, finished (0/1: it closes because the fleet is finished), persist (0/1),
--       how long a late worker may still join (seconds), the prefix of the frontier's keys,
--       returns (0/1: it closes because it uses too much memory, and may be started again)
-- Reply {cleared (0/1), leases left behind, entries in the failed list, awaited (0/1): the worker must call again}
--
-- Only the last worker of a finished fleet clears the frontier, for whatever reason it closes. The keys that remain
-- then expire. The exchange in which a worker finds the fleet finished notes that in META. A worker that was killed
-- meanwhile counts as alive until its deadline, and would leave the end of the crawl to nobody. So a worker that has
-- left calls again as long as another one was not heard since the finish.
local worker, finished, persist, grace, frontier = argument(), argument(), argument(), number(), argument()
local returns = argument()
-- Seconds for which an exchange of a worker that has left may still arrive.
local LATE_EXCHANGE = 60
local now = server_time()

-- -> whether any of the *others* was not heard since the *finish*
local function is_any_silent_since(finish, others)
  for _, other in ipairs(others) do
    local heard = tonumber(redis.pcall('HGET', WORKER .. other, 'heard') or '')
    if heard and heard < tonumber(finish) then return true end
  end
  return false
end

despite_full_memory()
local left, failed = redis.call('HLEN', LEASES .. worker), redis.call('LLEN', FAILED)
local is_member = redis.call('ZSCORE', WORKERS, worker)
-- An earlier stop, after which the crawl was resumed, is not why this worker leaves.
local stop = redis.call('HMGET', META, 'stop', 'stop_reason')
local is_stopped = number_of(redis.pcall('HGET', WORKER .. worker, 'joined'), math.huge) < number_of(stop[1], 0)
local stop_reason = is_stopped and stop[2] or nil
permits.leave(worker)
if slots.are_shared then shared_slots.leave(worker) end
if returns == '1' then lost.add(worker, now, now, true) else lost.remove(worker) end
if is_member then
  events.tell_gone(worker, 'worker_left')
  record.ended(worker, 'left', now)
end
local knows_the_end = is_member and not redis.call('HGET', WORKER .. worker, 'over')
if left > 0 then
  -- The worker could not report the fate of these leases. They are reclaimed like a dead worker's, but at once.
  redis.call('ZADD', WORKERS, now, worker)
  redis.call('HSET', WORKER .. worker, 'left', 1)
  redis.call('PEXPIRE', WORKER .. worker, 86400000)
else
  groups.forget_worker(worker)
  pools.forget_worker(worker, false)
  redis.call('ZREM', WORKERS, worker)
  fleet.forget(worker)
  -- A late exchange of this worker must not make it join again.
  redis.call('HSET', WORKER .. worker, 'gone', now)
  redis.call('EXPIRE', WORKER .. worker, LATE_EXCHANGE)
end

-- The reply of an earlier call that cleared the frontier was lost: the worker must still sweep.
if not is_member and redis.call('EXISTS', META) == 0 and redis.call('EXISTS', SEEN_CLEARED) == 1 then
  return {1, left, failed, 0}
end
local leased, busy = fleet.count()
local undone = waiting.length() + redis.call('ZCARD', DELAYED) + items.unmoved()
  + redis.call('ZCARD', FOLLOWERS) + redis.call('HLEN', GROUP_NEWS) + redis.call('ZCARD', GROUPS_EMPTIED)
local others = redis.call('ZRANGEBYSCORE', WORKERS, '(' .. now, '+inf')
-- -> the reply to a worker that leaves an unfinished crawl, which is stopped if this was its last worker
local function unfinished()
  if #others == 0 then crawls.write('stopped', stop_reason, now) end
  return {0, left, failed, 0}
end
if leased + busy + undone > 0 then return unfinished() end
if seeds.count() > 0 then return unfinished() end
if finished == '1' and knows_the_end and redis.call('EXISTS', META) == 1 then
  crawl.note_finish(now)
end
local finish = redis.call('HGET', META, 'finished')
-- A late worker found the finished crawl already cleared, and did nothing in it: only its own META is left.
if not finish and not knows_the_end then finish = redis.call('GET', FINISHED) end
if not finish then
  -- If workers wait in line for a place, keep META: they must still find the order to stop there. And if this worker is
  -- started again, it continues the counts there.
  local is_awaited = returns == '1' or permits.are_awaited()
  local is_empty = not is_awaited and redis.call('EXISTS', WORKERS, STARTED, DUPEFILTER, SEEN_STATE) == 0
  local has_begun = not is_empty or redis.call('HEXISTS', META, 'state') == 1
  if has_begun then return unfinished() end
  -- A crawl that never began leaves no settings that bind the next one, and no entry in the history.
  groups.clear()
  record.undo()
  redis.call('DEL', META, COUNTER, HISTORY, PAGES, EXPORTED, SLOT_PAGES)
  seen.clear(frontier)
  return {0, left, failed, 0}
end
redis.call('SET', FINISHED, finish, 'EX', grace)
redis.call('EXPIRE', STARTED, grace)
if #others > 0 then return {0, left, failed, is_any_silent_since(finish, others) and 1 or 0} end
for _, other in ipairs(redis.call('ZRANGE', WORKERS, 0, -1)) do
  events.tell_gone(other, 'worker_lost')
  record.ended(other, 'lost', now)
  pools.forget_worker(other, true)
  -- If this worker is only slow, its next exchange finds out that it counted as dead.
  if redis.call('EXISTS', WORKER .. other) == 1 then redis.pcall('HSET', WORKER .. other, 'reclaimed', 1) end
end
crawl.tell_finish()
redis.call('DEL', WORKERS, COUNTER, HISTORY, DELAYED, PAGES, EXPORTED, SLOT_LIMITS, SLOT_PAGES)
lost.clear()
items.drop_all()
groups.clear()
crawl.forget_finish()
redis.call('HDEL', META, 'exporting', 'rules', 'slot_default', 'slot_patterns', 'began', 'item_ids', 'item_ids_forgotten')
if persist == '1' then return {0, left, failed, 0} end
clear_waiting.clear()
redis.call('UNLINK', META)
seen.clear(frontier)
return {1, left, failed, 0}
