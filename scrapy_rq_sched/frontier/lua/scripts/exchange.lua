-- Needs: exchange/header, exchange/check, exchange/slot_admission, exchange/close_limits, exchange/item_reports, exchange/begin, exchange/pushes, exchange/page_items, exchange/release, exchange/upkeep, exchange/followers, store/groups, store/pools, exchange/make_leases, exchange/lease_others, exchange/serve_slots, exchange/reply
-- One exchange between a worker and the frontier.
--
-- ARGV  the header, in JSON: see exchange/header.lua. Then these lists, in this order; the header has the length of each:
--       pushes      all fingerprints, then all requests
--       finished    lease
--       given_back  lease: to put back to its place
--       refused     lease, reason: this worker does not know its callback or class
--       failed      lease, after, reason, traceback: to set aside
--       forgotten   mode, fingerprint: marked for a request that was not crawled after all
--       items       item: see exchange/page_items.lua
--       outcomes    at most one text: see store/outcomes.lua
-- Modes: 'filter' (push unless seen), 'force' (always), 'start' (unless this crawl had it as a start
--       request), 'start+filter'. If a request is empty, the worker keeps it in its own memory: its
--       fingerprint is marked, but nothing is pushed.
-- after: how many of the pushes must be stored before.
-- Reply {the header, in JSON, with the fields of exchange/reply.lua; leases}
--       leases: lease, value, lease, value, …, as they stand in Redis: see store/leases.lua
--
-- A repeated exchange has the same number. It is applied only once, and gets the same duplicates and leases again. A
-- worker that has left is refused, however late its exchange is. If a key has a wrong type, the exchange fails before
-- its first write.
local step = begin.new()
local refusal = check(step) or begin.heartbeat(step)
if refusal then return refusal end
begin.recognise(step)
if header.close then close_limits.look(step) end
-- Before the orders: a worker begins nothing with an item that rests or is retired from now on.
if header.pool_reports then item_reports.hear(step) end
begin.orders(step)
begin.rewind(step)

-- Most crawls have no limits of slots, and do without this module.
local has_limits = step.is_limited or not step.has_policy or header.grants or header.downloaded or header.answers
  or header.outside or header.latencies
if has_limits then slot_admission.learn(step) end
-- Children before parents: store the pushes before releasing any lease.
pushes.store(step)
-- Items are stored with the release of their page. If they have identities, scripts/forget.lua must know.
if step.made and not step.meta.item_ids and (header.feed or header.items_as == 'stream') then
  redis.call('HSET', META, 'item_ids', 1)
end
if header.item_groups or step.repeated then page_items.store(step) end
release.finish(step)
release.give_back(step)
release.refuse(step)
release.set_aside(step)
pushes.forget(step)
if step.meta.item_parts then page_items.move(step) end

upkeep.account(step)
upkeep.note(step)
upkeep.reclaim(step)
if groups.are_used() then
  followers.acknowledge(step)
  followers.settle(step)
  followers.announce(step)
end

if has_limits then slot_admission.report(step) end
step.offers = step.has_pools and pools.offers(header.offers) or header.offers
if header.asks then slot_admission.give(step) end
if header.outside then slot_admission.give_outside(step) end
if step.repeated then
  make_leases.again(step)
  if step.is_limited then slot_admission.tell_again(step) end
else
  local phases = {lease_others.seeds, lease_others.share, lease_others.parked, serve_slots.take, lease_others.drop}
  local failure = make_leases.hand_out_all(step, phases)
  if failure then return failure end
end
return reply(step)
