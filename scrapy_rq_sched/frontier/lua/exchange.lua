-- Needs: exchange/check, exchange/limited, exchange/closing, exchange/begin, exchange/pushes, exchange/release, exchange/upkeep, exchange/handing, exchange/leasing, exchange/turns, exchange/reply
-- One exchange between a worker and the frontier.
--
-- ARGV  the header, in JSON: see said.lua. Then these lists, in this order; the header has the length of each:
--       pushes      all fingerprints, then all requests
--       finished    lease
--       given_back  lease: to put back to its place
--       refused     lease, reason: this worker does not know its callback or class
--       failed      lease, after, reason, traceback: to set aside
--       forgotten   mode, fingerprint: marked for a request that was not crawled after all
-- Modes: 'filter' (push unless seen), 'force' (always), 'start' (unless this crawl had it as a start
--       request), 'start+filter'. If a request is empty, the worker keeps it in its own memory: its
--       fingerprint is marked, but nothing is pushed.
-- after: how many of the pushes must be stored before.
-- Reply {the header, in JSON, with the fields of exchange/reply.lua; leases}
--       leases: lease, value, lease, value, …, as they stand in Redis: see leases.lua
--
-- A repeated exchange has the same number. It is applied only once, and gets the same duplicates and leases again. A
-- worker that has left is refused, however late its exchange is. If a key has a wrong type, the exchange fails before
-- its first write.
local turn = begin.turn()
local refusal = check(turn) or begin.heartbeat(turn)
if refusal then return refusal end
begin.recognise(turn)
closing.look(turn)
begin.orders(turn)
begin.rewind(turn)

limited.learn(turn)
limited.report(turn)
-- Children before parents: store the pushes before releasing any lease.
pushes.store(turn)
release.finish(turn)
release.give_back(turn)
release.refuse(turn)
release.set_aside(turn)
pushes.forget(turn)

upkeep.account(turn)
upkeep.note(turn)
upkeep.reclaim(turn)

limited.give(turn)
if turn.repeated then
  handing.again(turn)
  if limited.is_on(turn) then limited.tell_again(turn) end
else
  local steps = {leasing.seeds, leasing.share, leasing.delayed, turns.take, leasing.drop}
  local failure = handing.hand_out_all(turn, steps)
  if failure then return failure end
end
return reply(turn)
