-- Needs: exchange/check, exchange/limited, exchange/closing, exchange/begin, exchange/pushes, exchange/release, exchange/upkeep, exchange/handing, exchange/leasing, exchange/turns, exchange/reply
-- One exchange between a worker and the frontier.
--
-- ARGV  the header, in JSON: see said.lua. Among its fields is of each of these, in this order, how many follow:
--       pushes      all their fingerprints, then all their requests
--       finished    lease
--       given_back  lease: it goes back to where it stood
--       refused     lease, reason: this worker does not know its callback or class
--       failed      lease, after, reason, traceback: it is set aside
--       forgotten   mode, fingerprint: it was marked for a request that was not crawled
-- Modes: 'filter' (unless seen), 'force' (always), 'start' (unless this crawl had it as a start
--       request), 'start+filter'. An empty request is one that the worker keeps in its memory: it
--       is marked, not pushed.
-- after: how many of these pushes have to be stored before.
-- Reply {the header, in JSON, with the fields of exchange/reply.lua; leases}
--       leases: lease, value, lease, value, …, as they stand in Redis: see leases.lua
--
-- Applied twice is applied once: an exchange whose number is not new changes nothing of what it
-- says, and gives the same duplicates and leases again. A worker that has left is refused, however late.
-- Everything that can fail by a key of the wrong type fails before the first write.
local turn = begin.turn()
local refusal = check(turn) or begin.heartbeat(turn)
if refusal then return refusal end
begin.recognise(turn)
closing.look(turn)
begin.orders(turn)
begin.rewind(turn)

limited.learn(turn)
limited.report(turn)
-- Children before parents: what is pushed is stored before any lease is released.
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
  handing.prepare(turn)
  leasing.seeds(turn)
  leasing.share(turn)
  leasing.delayed(turn)
  turns.take(turn)
  leasing.drop(turn)
  handing.hold(turn)
end
return reply(turn)
