-- Needs: exchange_begin, exchange_up, exchange_upkeep, exchange_down, exchange_reply
-- One exchange between a worker and the frontier.
--
-- ARGV  the header, in JSON; its fields are those of Batch.arguments() in exchange.py. Among them is of each of
--       these, in this order, how many follow:
--       pushes      mode, fingerprint, -priority, request
--       finished    lease, after
--       given_back  lease: it goes back to where it stood
--       refused     lease, reason: this worker does not know its callback or class
--       failed      lease, after, reason, traceback: it is set aside
--       forgotten   mode, fingerprint: it was marked for a request that was not crawled
-- Modes: 'filter' (unless seen), 'force' (always), 'start' (unless this crawl had it as a start
--       request), 'start+filter'. An empty request is one that the worker keeps in its memory: it
--       is marked, not pushed.
-- after: how many of these pushes have to be stored before.
-- Reply {the header, in JSON, with the fields of exchange_reply.lua; leases}
--       leases: lease, kind, deaths, request, lease, …
--
-- Applied twice is applied once: an exchange whose number is not new changes nothing of what it
-- says, and gives the same duplicates and leases again. A worker that has left is refused, however late.
-- Everything that can fail by a key of the wrong type fails before the first write.
local turn = begin.turn()
local refusal = begin.refuse(turn) or begin.heartbeat(turn)
if refusal then return refusal end
begin.recognise(turn)
begin.orders(turn)
begin.rewind(turn)

-- Children before parents: what is pushed is stored before any lease is released.
up.push(turn)
up.finish(turn)
up.give_back(turn)
up.refuse(turn)
up.set_aside(turn)
up.forget(turn)

upkeep.account(turn)
upkeep.note(turn)
upkeep.reclaim(turn)

if turn.repeated then
  down.again(turn)
else
  down.begin(turn)
  down.seeds(turn)
  down.share(turn)
  down.delayed(turn)
  down.requests(turn)
  down.drop(turn)
  down.hold(turn)
end
return reply(turn)
