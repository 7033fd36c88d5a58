"""Take one protection after the other out of the code, and see that a scenario notices.

Run as ``python -m tests.chaos.mutants [NAME …]``. The code is changed in a copy; each scenario is played in
its short form, up to three times, because what a fault costs is partly chance.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGE = "scrapy_rq_sched"
ATTEMPTS = 3


@dataclass(frozen=True)
class Mutant:
    """A protection that is taken out.

    :param without: what is missing then.
    :param scenarios: those that have to notice.
    :param edits: file, what stands there once, and what stands there instead.
    """

    without: str
    scenarios: tuple[str, ...]
    edits: tuple[tuple[str, str, str], ...]


CHECK, BEGIN, PUSHES, RELEASE, UPKEEP, REPLY = (
    f"frontier/lua/exchange/{part}.lua" for part in ("check", "begin", "pushes", "release", "upkeep", "reply")
)
ADMISSION = "frontier/lua/exchange/admission.lua"
LEAVE, LIMITS = "frontier/lua/scripts/leave.lua", "frontier/lua/slots/limits.lua"
REPORTED = "frontier/lua/slots/slot_reports.lua"
PAGE_ITEMS = "frontier/lua/exchange/page_items.lua"
POOL_ITEMS = "frontier/lua/store/pool_items.lua"

MUTANTS = {
    "no-block": Mutant(
        "a site that asks one worker to wait is not asked by any",
        ("polite-refused",),
        (
            (
                "frontier/lua/slots/site_answers.lua",
                "local is_blocked = wait > 0 and block(state, wait, why)",
                "local is_blocked = false",
            ),
        ),
    ),
    "no-pauses": Mutant(
        "a site that cannot be reached is asked seldom",
        ("polite-dead",),
        (
            (
                "frontier/lua/slots/backoff.lua",
                "if not was_down and failures < IN_A_ROW then return nil end",
                "do return nil end",
            ),
        ),
    ),
    "no-turns-for-files": Mutant(
        "requests that workers send without the scheduler wait for turns of their slots",
        ("polite-files",),
        (("worker/outside.py", "self._politeness.delays_outside(slot) or self.is_held(slot)", "False"),),
    ),
    "no-deny-list": Mutant(
        "what an operator denies is not begun",
        ("polite-deny",),
        (("worker/deny_list.py", "is_denied = is_of_host or", "is_denied = False and"),),
    ),
    "no-lanes": Mutant(
        "a request goes only to a worker that offers what it needs",
        ("needs-kill",),
        (
            ("frontier/lua/slots/lanes.lua", "'|' .. need .. '|', 1, true) then", "'', 1, true) then"),
            ("worker/needs.py", "return needs_of(request) - self._offers", "return frozenset()"),
        ),
    ),
    "no-waiting-for-groups": Mutant(
        "a request waits until the groups are finished that it follows",
        ("groups-kill",),
        (
            (
                "frontier/lua/exchange/followers.lua",
                "  if not number then return false end\n",
                "  do return false end\n",
            ),
        ),
    ),
    "no-inherited-groups": Mutant(
        "the requests of a callback are in the groups of its page",
        ("groups-kill",),
        (("codec/groups.py", "    if groups:\n", "    if False:\n"),),
    ),
    "no-signal-after-a-death": Mutant(
        "another worker sends the signal of a finished group if the first one dies",
        ("groups-kill",),
        (
            (
                "frontier/lua/exchange/followers.lua",
                "(owner == '' or not redis.call('ZSCORE', WORKERS, owner))",
                "owner == ''",
            ),
        ),
    ),
    "no-item-kept": Mutant(
        "an item of a pool has no more users at a time than it may have",
        ("pools-kill", "pools-life"),
        (
            (
                POOL_ITEMS,
                "if its.retired or pool_items.uses_of(pool, item) >= concurrency or",
                "if its.retired or",
            ),
        ),
    ),
    "no-item-released-after-a-death": Mutant(
        "the items of a dead worker's requests are free when its lease is over",
        ("pools-kill",),
        ((UPKEEP, "  pools.taken(dead, some, true)\n", ""),),
    ),
    "no-end-of-an-item-for-life": Mutant(
        "the item that a dead worker had for its life is free when its lease is over",
        ("pools-life",),
        ((UPKEEP, "    pools.forget_worker(dead, true)\n", ""),),
    ),
    "no-item-delay": Mutant(
        "the next request with an item waits for the delay of the item, from its last answer on",
        ("pools-kill",),
        ((POOL_ITEMS, "if report.ago and delay > 0 then", "if false then"),),
    ),
    "no-cookies-of-items": Mutant(
        "the cookies of an item go with it to the next worker",
        ("pools-kill",),
        (
            (
                POOL_ITEMS,
                "return {its.value or 'null', its.cookies or ''}",
                "return {its.value or 'null', ''}",
            ),
        ),
    ),
    "no-cap": Mutant(
        "a crawl has no more pages than its cap",
        ("cap-kill",),
        (("frontier/lua/exchange/caps.lua", "return true, read(step, slot) >= most", "return true, false"),),
    ),
    "no-reclaim": Mutant(
        "what a dead worker held goes back",
        (
            "kill-random",
            "kill-reply",
            "kill-push",
            "kill-reclaim",
            "kill-give-back-unsent",
            "kill-give-back",
            "sigterm-twice",
        ),
        ((UPKEEP, "  put_back(back, dead, header.max_failed, step.now)\n", ""),),
    ),
    "released-when-downloaded": Mutant(
        "children before the parent: a lease lasts until the callback is exhausted and its links are stored",
        ("kill-send", "kill-push"),
        (("engine/bridge.py", "return slot.inprogress if", "return self._engine.downloader.active if"),),
    ),
    "end-needs-everybody": Mutant(
        "the end is decided by what is left to do, whoever is there to hear of it",
        ("kill-finish", "kill-leave", "kill-left"),
        (
            (
                REPLY,
                "leased + count + seeds_count + busy == 0",
                "redis.call('ZCARD', WORKERS) == 1",
            ),
            (UPKEEP, "    redis.call('ZREM', WORKERS, dead)\n    redis", "    redis"),
        ),
    ),
    "goes-on-with-what-is-anothers": Mutant(
        "a worker that was given up for dead drops what it had not begun",
        ("stop-and-continue",),
        (
            (
                "worker/state.py",
                "self.give_back(known=False)\n        self.expanding.clear()",
                "self.expanding.clear()",
            ),
            (
                "worker/admission.py",
                "        return not self.cut_off and self._rate.silence",
                "        return False and self._rate.silence",
            ),
        ),
    ),
    "no-give-back": Mutant(
        "a worker that closes gives back what it had not begun, and what it cannot account for",
        ("sigint", "sigterm"),
        (
            (
                "worker/session.py",
                "        if self.closing or state.order in (Order.PAUSE, Order.WAIT) or "
                "state.pools.holds_back:\n            state.give_back()\n",
                "",
            ),
            (LEAVE, "if left > 0 then", "if false then"),
        ),
    ),
    "items-before-their-release": Mutant(
        "items are stored with the release of their page",
        ("items-kill",),
        (
            ("worker/items.py", "PART_BYTES, PART_ITEMS = 256 * 1024, 1000", "PART_BYTES, PART_ITEMS = 1, 1"),
            (
                PAGE_ITEMS,
                "    items.keep(step.worker, to, ARGV, first, last)\n",
                "    items.release(to .. number, page, ARGV, first, last, false)\n",
            ),
        ),
    ),
    "items-without-an-identity": Mutant(
        "an item has the same identity for each delivery of its page",
        ("items-failover",),
        (
            (
                "worker/items.py",
                "known = one_line(self._fingerprint(request)).encode() if is_filtered else lease.payload",
                "known = lease.name.encode()",
            ),
        ),
    ),
    "file-without-identities": Mutant(
        "the file of items knows what it contains",
        ("items-file",),
        (
            (
                "collect/item_file.py",
                "            if n < (batch.counts[page]",
                "            if 0 > (batch.counts[page]",
            ),
        ),
    ),
    "no-count-of-deaths": Mutant(
        "a request that kills its workers is set aside",
        ("deadly-page",),
        ((UPKEEP, "elseif deaths >= header.max_deliveries then", "elseif false then"),),
    ),
    "failed-exchange-forgotten": Mutant(
        "an exchange that failed is made again",
        ("cut", "break", "client-kill", "redis-restart", "redis-crash"),
        (
            (
                "worker/loop.py",
                "        # The same batch again, or a part of it: the frontier recognises it by its "
                "number.\n",
                "        self._batch = None\n",
            ),
        ),
    ),
    "repeat-not-recognised": Mutant(
        "applied twice is applied once",
        ("swallow",),
        ((BEGIN, "step.repeated = last and number <= last", "step.repeated = false"),),
    ),
    "on-the-event-loop": Mutant(
        "a thread waits for Redis, not the event loop",
        ("redis-stall",),
        (
            (
                "runtime/background.py",
                "        self._calls.put((function, done))\n",
                "        try:\n            result, error = function(), None\n"
                "        except Exception as failure:\n            result, error = None, failure\n"
                "        self._loop.call_from_thread(done, result, error)\n",
            ),
        ),
    ),
    "scripts-not-loaded-again": Mutant(
        "scripts that Redis has forgotten are loaded again",
        ("script-flush",),
        (
            (
                "frontier/client.py",
                "Reply.parse(self._exchange(keys=self._all_keys, args=arguments), sent)",
                "Reply.parse(self.server.evalsha(\n"
                "                self._exchange.sha, len(self._all_keys), *self._all_keys, *arguments), "
                "sent)",
            ),
        ),
    ),
    "clock-of-the-worker": Mutant(
        "who is dead is decided by the server's clock",
        ("clocks",),
        (
            ("frontier/client.py", "import math\n", "import math\nimport time\n"),
            (
                "frontier/client.py",
                "        return () if self._length is None else (self._length(),)\n",
                "        return (int(time.time() * 1000),)\n",
            ),
            (BEGIN, "now = header.worker, server_time()", "now = header.worker, tonumber(ARGV[#ARGV])"),
        ),
    ),
    "full-is-stored": Mutant(
        "what finds no room stays in the outbox",
        ("redis-full",),
        (
            (
                PUSHES,
                "if full == '' then full = lacks_room(step, before + #requests) or '' end\n",
                "if full == '' then full = lacks_room(step, before + #requests) or '' end\n"
                "  stored = header.pushes\n",
            ),
        ),
    ),
    "older-data-not-noticed": Mutant(
        "nothing is released whose children a failover has lost",
        ("failover-not-waited",),
        ((BEGIN, "step.rewound = last and last < number - 1 or", "step.rewound ="),),
    ),
    "replicas-not-waited-for": Mutant(
        "with FRONTIER_WAIT_REPLICAS an exchange is over when replicas have it; and older data is noticed",
        ("failover-waited",),
        (
            ("frontier/client.py", "wanted, sent = self.config.wait_replicas, ", "wanted, sent = 0, "),
            (BEGIN, "step.rewound = last and last < number - 1 or", "step.rewound ="),
        ),
    ),
    "refused-is-set-aside": Mutant(
        "what one worker cannot do is left to another",
        ("deploy",),
        (
            (
                RELEASE,
                "if admission.is_refused_by_all(",
                "if (function(history) return true end)(",
            ),
        ),
    ),
    "unreadable-is-dropped": Mutant(
        "what cannot be read is set aside",
        ("garbage-entries",),
        (
            (
                "worker/handout.py",
                "            self._state.fail(lease, str(error))\n        except Exception",
                "            self._state.finish(lease)\n        except Exception",
            ),
        ),
    ),
    "leases-are-trusted": Mutant(
        "what is no lease does not stop an exchange half-way",
        ("garbage-fleet",),
        (
            (
                "frontier/lua/store/leases.lua",
                "  if not rank or rank ~= rank then return 'request', '0', '0', value, '' end\n",
                "",
            ),
        ),
    ),
    "counter-is-trusted": Mutant(
        "what is no number is none",
        ("garbage-rest",),
        (
            (
                "frontier/lua/store/queue/priority.lua",
                "tonumber(redis.call('GET', COUNTER)) or 0",
                "redis.call('GET', COUNTER) or 0",
            ),
        ),
    ),
    "types-are-trusted": Mutant(
        "a key of a wrong type is named before anything is done",
        ("wrong-type",),
        (
            (CHECK, "if problem then return", "if false then return"),
            (CHECK, "if failure then return failure end", ""),
        ),
    ),
    "no-bound": Mutant(
        "no more wait than may",
        ("bound-slow",),
        ((PUSHES, "if header.policy ~= 'slow' or", "if true or"),),
    ),
    "dropped-stays-seen": Mutant(
        "a dropped request does not count as seen",
        ("bound-drop",),
        (("worker/outbox.py", "        self.forget(mode, fingerprint)\n", ""),),
    ),
    "start-is-not-waited-for": Mutant(
        "nobody ends while another reads its start()",
        ("slow-start",),
        (
            (
                REPLY,
                "leased + count + seeds_count + busy == 0",
                "leased + count + seeds_count == 0",
            ),
        ),
    ),
    "late-workers-begin-anew": Mutant(
        "a worker started before the finish does not begin the crawl anew",
        ("all-at-once",),
        (
            (
                "frontier/lua/scripts/open.lua",
                "and leased == 0 and now - age >= finish and (",
                "and leased == 0 and (",
            ),
        ),
    ),
    "finish-not-kept": Mutant(
        "a finish that nobody has cleared up is found by the next crawl",
        ("kill-finish", "kill-leave"),
        (
            (REPLY, "then crawl.note_finish(step.now) end", "then local kept = 0 end"),
            (
                LEAVE,
                "  crawl.note_finish(now)\n",
                "  redis.call('SET', FINISHED, now)\n",
            ),
            (
                LEAVE,
                "local finish = redis.call('HGET', META, 'finished')",
                "local finish = finished == '1' and now",
            ),
        ),
    ),
    "every-death-counts": Mutant(
        "a death counts only against what its worker had begun",
        ("kill-young",),
        (
            (
                UPKEEP,
                "or histories.add(request, had_begun and 'died' or 'unbegun'",
                "or histories.add(request, 'died'",
            ),
        ),
    ),
    "batch-is-not-narrowed": Mutant(
        "a request that cannot be sent keeps nobody from the others",
        ("too-large",),
        (
            (
                "worker/attempt.py",
                "if (self._whole.pushes or self._whole.item_groups) and (at_once",
                "if False and (at_once",
            ),
        ),
    ),
    "vanished-is-lost": Mutant(
        "what the workers have in hand is stored again where all keys are deleted",
        ("flushall",),
        (("worker/session.py", "orphans = [*state.ready, *state.expanding]", "orphans = []"),),
    ),
    "delay-of-each-worker": Mutant(
        "all workers together keep a delay",
        ("polite-fleet", "polite-join"),
        (("worker/slots.py", 'limits.delay if "delay" in self._fleet', "0.0 if self._fleet"),),
    ),
    "turns-before-their-time": Mutant(
        "a request that was leased ahead of its time waits for it",
        ("polite-older", "polite-fleet"),
        (
            (
                "worker/admission.py",
                "return Block(Cause.TIME, until) if until > now else None",
                "return None",
            ),
            ("engine/downloader_slots.py", "LOCAL_PART = 0.99", "LOCAL_PART = 0.01"),
        ),
    ),
    "turns-of-anybody": Mutant(
        "one worker at a time has turns of a slot, and says when it has used the last",
        ("polite-slow",),
        (
            (ADMISSION, "if state.pending > 0 and ask.now", "if false and ask.now"),
            (REPORTED, "if last > 0 then", "if false then"),
        ),
    ),
    "gap-from-the-plan": Mutant(
        "a turn that was used late moves on the next of the same worker",
        ("polite-stall",),
        (
            (
                "worker/grants.py",
                "return max(at, used + KEPT * (apart if gap is None else min(apart, gap)))",
                "return at",
            ),
            ("engine/downloader_slots.py", "LOCAL_PART = 0.99", "LOCAL_PART = 0.01"),
        ),
    ),
    "slots-are-inherited": Mutant(
        "the target of a redirect counts for the slot of its own host",
        ("polite-redirect",),
        (
            (
                "engine/downloader_slots.py",
                'return key if request.meta.get("download_slot") is not None else AssignedSlot(key)',
                "return key",
            ),
        ),
    ),
    "no-end-of-places": Mutant(
        "one worker more than may be waits",
        ("max-workers",),
        (("frontier/lua/fleet/permits.lua", "if before < most - taken then", "if before < most then"),),
    ),
    "places-of-the-dead": Mutant(
        "the place of a dead worker goes to the first in line",
        ("max-workers",),
        (("frontier/lua/fleet/permits.lua", "  redis.call('ZREMRANGEBYSCORE', PLACES, '-inf', now)\n", ""),),
    ),
    "orphans": Mutant(
        "workers do not outlive the supervisor that has started them",
        ("supervised",),
        (("runtime/supervised.py", "        if os.getppid() == supervisor:", "        if True:"),),
    ),
    "buffered-items": Mutant(
        "an item is in its file before its page is released",
        ("items-own-files",),
        (
            (
                "feeds.py",
                "return _WholeItems(self.path, self.write_mode, spider.crawler)",
                "return io.BufferedWriter(_WholeItems(self.path, self.write_mode, spider.crawler), 65536)",
            ),
        ),
    ),
    "file-after-its-acknowledgement": Mutant(
        "an item is on the disk before it is deleted from the stream",
        ("items-file",),
        (
            (
                "supervise/feeds.py",
                "        self.file.add(wanted)\n",
                "        self._server.xtrim(self.key, minid=_after(entries[-1].number), approximate=False)\n"
                "        self.file.add(wanted)\n",
            ),
        ),
    ),
    "lost-in-silence": Mutant(
        "that a worker is lost is told by the step that takes back what it held",
        ("events",),
        ((UPKEEP, "  events.tell_gone(dead, 'worker_lost')\n  local back", "  local back"),),
    ),
    "finished-by-each": Mutant(
        "a crawl is finished once, and that is recorded when the last worker has left",
        ("events",),
        ((LEAVE, "if #others > 0 then", "crawl.tell_finish()\nif #others > 0 then"),),
    ),
    "hung-is-alive": Mutant(
        "a worker that hangs at a request is killed, so that the request can be set aside",
        ("hang",),
        (
            (
                "supervise/supervisor.py",
                "liveness.hung_at(process.report().worker) if may_hang else None",
                "None",
            ),
        ),
    ),
    "refused-once-and-for-all": Mutant(
        "an event that a receiver has not taken is sent again",
        ("events",),
        (
            (
                "events/webhook.py",
                "elif problem is None or self._gives_up(event, problem):",
                "else:",
            ),
        ),
    ),
    "as-old-as-its-process": Mutant(
        "a worker that is started again is as old as its supervisor: it begins no finished crawl anew",
        ("kill-last",),
        (("runtime/identity.py", "return run.clock() - supervised.started", "return 0.0"),),
    ),
    "flush-by-a-replacement": Mutant(
        "SCHEDULER_FLUSH_ON_START clears a frontier when a crawl starts, and not when a worker is replaced",
        ("flush-replaced",),
        (("frontier/lua/scripts/open.lua", "  if took_part then return 'run' end\n", ""),),
    ),
    "renewed-each-time": Mutant(
        "a worker that is late itself renews the leases of the silent ones once",
        ("late-survivor",),
        (("frontier/lua/fleet/renew.lua", "if tonumber(passed[i + 1]) % 1 == 0 then", "if true then"),),
    ),
    "named-limits-forgotten": Mutant(
        "the limits of single slots hold from the first request after a restart on",
        ("limits-resume", "limits-kill"),
        ((LIMITS, "if was_set or rules == all.rules then", "if was_set then"),),
    ),
    "dead-of-other-spiders-live": Mutant(
        "the downloads of another spider's worker count while that worker is alive",
        ("limits-shared",),
        (("frontier/lua/slots/downloads.lua", "return shared_slots.lives(worker) end", "return nil end"),),
    ),
    "no-quiet": Mutant(
        "nothing begins for a moment when Redis has come back with older data",
        ("polite-older",),
        ((ADMISSION, "rewound + math.max(QUIET, state.delay)", "0"),),
    ),
}


def apply(mutant: Mutant, folder: Path) -> None:
    """Change the code in *folder*; what is to be changed must stand there once."""
    for name, old, new in mutant.edits:
        path = folder / PACKAGE / name
        text = path.read_text()
        if text.count(old) != 1:
            raise SystemExit(f"{name} has {text.count(old)} times: {old!r}")
        path.write_text(text.replace(old, new))


def play(scenario: str, folder: Path) -> str:
    """Return what the scenario complains of; nothing if it has not noticed."""
    # The copy comes before what is installed, also for the workers.
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "tests.chaos", "--short", "--only", scenario]
    said = ""
    for _ in range(ATTEMPTS):
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        _, found, said = done.stdout.partition("NOT OK: ")
        if found:
            return said.strip()[:100]
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
    return ""


def main() -> int:
    """Try the chosen mutants, or all, and return the exit code."""
    survived = 0
    for name in sys.argv[1:] or MUTANTS:
        mutant = MUTANTS[name]
        print(f'{name}: without "{mutant.without}"', flush=True)
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            for part in (PACKAGE, "tests"):
                shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
            apply(mutant, folder)
            for scenario in mutant.scenarios:
                complaint = play(scenario, folder)
                survived += not complaint
                print(f"    {scenario:24}{complaint or 'SURVIVED'}", flush=True)
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
