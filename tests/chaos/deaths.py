"""Workers that die, stop, and are stopped."""

from __future__ import annotations

import json
import signal
from collections import Counter

from tests.project.crawls.faults import MOMENTS
from tests.project.crawls.graph import page_url
from tests.support.groups import too_early
from tests.support.needs import lacking

from .arena import UNRELEASED, Arena, unreleased
from .referee import Outcome
from .registry import scenario

#: Where a death is not what is looked at: nobody is suspected of it.
MANY = {"FRONTIER_MAX_DELIVERIES": 1000}
#: What the others log of a dead worker, and what it logs itself if it was only stopped.
#: How many signals a killed worker may have sent that it could not confirm.
SIGNALS = 4
DIED, LOST = "Workers that died", "was silent for longer than FRONTIER_LEASE_TIMEOUT"


@scenario(
    "kill-random",
    "Workers are killed (SIGKILL) at random moments, each after its successor was started. A killed worker "
    f"explains {UNRELEASED} repeats: three and a quarter for each of its CONCURRENT_REQUESTS.",
    again=True,
)
def kill_random(arena: Arena) -> Outcome:
    return _kill_at_random(arena, arena.choose(4, 110), arena.choose(600, 24_000))


@scenario(
    "kill-compact",
    "Like kill-random, with CompactDupeFilter. Redis treats sets of more than 32 integers as large, so that "
    "most exchanges split some.",
    again=True,
)
def kill_compact(arena: Arena) -> Outcome:
    arena.client.config_set("set-max-intset-entries", 32)
    compact = {"DUPEFILTER_CLASS": "scrapy_rq_sched.CompactDupeFilter"}
    return _kill_at_random(arena, arena.choose(4, 40), arena.choose(600, 8000), **compact)


@scenario(
    "cap-kill",
    "Workers are killed at random moments, in a crawl whose FRONTIER_MAX_PAGES is less than the site has. It "
    f"has exactly as many pages. Each explains {UNRELEASED} repeats.",
)
def cap_kill(arena: Arena) -> Outcome:
    pages, cap = arena.choose((900, 400), (30_000, 10_000))
    arena.crawl(workers=3, pages=pages, FRONTIER_MAX_PAGES=cap, **MANY)
    kills = arena.kill_some(arena.choose(3, 40), 0.8 * cap / pages, 0.05, 0.5)
    arena.settle()
    parsed = set(arena.fleet.urls("parsed"))
    assert len(parsed) == cap, f"{len(parsed)} pages, with a cap of {cap}"
    reasons = set(arena.fleet.reasons())
    assert reasons == {"max_pages"}, reasons
    return Outcome(kills, kills * UNRELEASED, absent=arena.pages - parsed)


@scenario(
    "needs-kill",
    "Some pages need a browser, some a GPU, some both. Workers of three kinds are killed at random moments, "
    f"each replaced by its like. No worker crawls a page without what it needs. Each explains {UNRELEASED} "
    "repeats.",
)
def needs_kill(arena: Arena) -> Outcome:
    arena.crawl("needy", workers=0, pages=arena.choose(400, 8000), SPIDER_MODULES="crawls.needy", **MANY)
    kinds: dict[int, list[str]] = {}

    def start(offers: list[str]) -> None:
        environment = {"OFFERS": "+".join(offers)}
        (number,) = arena.join(environment=environment, FRONTIER_OFFERS=json.dumps(offers))
        kinds[number] = offers

    for offers in ([], ["browser"], ["browser", "gpu"]):
        start(offers)
    arena.all_opened()
    kills, wanted = 0, arena.choose(4, 40)
    for _ in arena.moments(0.9, 0.05, 0.5):
        if kills < wanted and len(arena.busy()) > 1 and arena.may_join():
            number = arena.random.choice(arena.busy())
            start(kinds[number])
            arena.fleet.kill(number)
            kills += 1
    arena.settle()
    wrong = lacking(arena.fleet)
    assert not wrong, wrong[:3]
    return Outcome(kills, kills * UNRELEASED)


@scenario(
    "groups-kill",
    "Groups of pages have a follow-up each, and workers are killed at random moments. No follow-up begins "
    "before its group is finished, and the signal group_finished is sent for each group, and again only if a "
    f"kill explains it. Each explains {UNRELEASED} repeats.",
    again=True,
)
def groups_kill(arena: Arena) -> Outcome:
    groups, members = arena.choose((40, 10), (200, 20))

    def url(number: int) -> str:
        group, page = divmod(number, members + 1)
        return page_url(f"{group}-{page}" if page < members else f"after-{group}")

    arena.crawl(
        "grouped",
        workers=3,
        pages=groups * (members + 1),
        urls=url,
        SPIDER_MODULES="crawls.grouped",
        GROUPS=groups,
        GROUP_PAGES=members,
        **MANY,
    )
    # One page leads to all groups: a kill before would only repeat this one.
    arena.reach(0.03)
    kills = arena.kill_some(arena.choose(4, 20), 0.95, *arena.choose((0.05, 0.5), (0.2, 0.9)))
    arena.settle()
    early = too_early(arena.fleet)
    assert not early, f"the follow-ups of groups {early[:3]} came too early"
    sent = Counter(event.what for event in arena.fleet.events("finished"))
    assert sent.keys() == {f"g-{group} 0" for group in range(groups)}, "a group has not finished"
    again = sent.total() - groups
    assert again <= SIGNALS * kills, f"{again} signals were repeated"
    return Outcome(kills, kills * UNRELEASED)


def _kill_at_random(arena: Arena, wanted: int, pages: int, **settings: str) -> Outcome:
    arena.crawl(workers=arena.choose(3, 4), pages=pages, **MANY, **settings)
    kills = 0
    for _ in arena.moments(0.9, 0.05, 0.5):
        # Nobody is killed while it is the only one: who is started after the finish begins a new crawl.
        if len(arena.busy()) > 1 and arena.may_join():
            arena.join()
            arena.fleet.kill(arena.random.choice(arena.busy()))
            kills += 1
        if kills == wanted:
            break
    return Outcome(kills, kills * UNRELEASED)


def _kill_at(moment: str, when: str) -> None:
    after_the_end = moment in ("finish", "leave", "left")
    explained = "Nothing is left to repeat" if after_the_end else f"It explains {UNRELEASED} repeats"
    if moment == "reclaim":
        explained = f"It and the dead worker explain {UNRELEASED} repeats each"

    @scenario(f"kill-{moment}", f"A worker is killed {when}. {explained}.", again=True)
    def kill_at(arena: Arena) -> Outcome:
        # The downloader has to be what is waited for: slow callbacks raise the limit on what is begun.
        arena.crawl("linger", workers=0, pages=arena.choose(250, 2000), GRAPH_LATENCY=0.15, **MANY)
        # Only the first tenth of the pages has new links: there are not many such moments.
        nth = arena.random.randint(1, arena.choose(1, 5)) if moment in ("send", "reply", "push") else 1
        (victim,) = arena.join(environment={"KILL_AT": f"{moment}:{nth}"})
        # First, so that it is the one that meets the pages with new links.
        arena.wait(lambda: arena.opened() or not arena.alive(), "the victim did not open")
        (other,) = arena.join()
        arena.all_opened()
        if moment.startswith("give-back"):
            arena.reach(0.15)
            arena.fleet.kill(victim, signal.SIGINT)
        elif moment == "reclaim":
            arena.reach(0.15)
            arena.fleet.kill(other)
            arena.wait(lambda: arena.fleet.events("killed"), "nobody took back what the dead worker held")
            arena.join()
        arena.wait(lambda: victim not in arena.alive(), "the victim lives", 40 + arena.choose(0, 60))
        assert arena.fleet.events("killed"), f"the moment {moment!r} did not come"
        faults = 2 if moment == "reclaim" else 1
        return Outcome(faults, 0 if after_the_end else faults * UNRELEASED)


for _moment, _when in MOMENTS.items():
    _kill_at(_moment, _when)


@scenario(
    "stop-and-continue",
    "A worker is stopped (SIGSTOP) for longer than its lease and continued (SIGCONT), repeatedly. "
    f"Each time explains {UNRELEASED} repeats: the requests that it had begun.",
)
def stop_and_continue(arena: Arena) -> Outcome:
    # The others must not be through with the site before the last of the stops.
    arena.crawl(workers=3, pages=arena.choose(600, 15_000), GRAPH_LATENCY=arena.choose(0.1, 0.2), **MANY)
    stops = arena.choose(1, 8)
    for number in range(stops):
        arena.reach(0.1 + 0.08 * number)
        victim = number % 3
        others = [worker for worker in range(3) if worker != victim]
        died, lost = (arena.logged(text, who) for text, who in ((DIED, others), (LOST, [victim])))
        arena.fleet.kill(victim, signal.SIGSTOP)
        try:
            arena.wait_for_more(DIED, others, died)
        finally:
            arena.fleet.kill(victim, signal.SIGCONT)
        arena.wait_for_more(LOST, [victim], lost)
    return Outcome(stops, stops * UNRELEASED)


def _end(name: str, about: str, sent: signal.Signals, times: int, explained: int) -> None:
    @scenario(name, about, again=True)
    def end(arena: Arena) -> Outcome:
        clean = times == 1
        lease = arena.without_deaths if clean else {}
        arena.crawl(workers=arena.choose(2, 4), GRAPH_LATENCY=arena.choose(0.1, 0.2), **lease)
        victims = arena.choose([0], [0, 1, 2])
        for victim in victims:
            arena.reach(0.1 + 0.2 * victim)
            arena.fleet.kill(victim, sent)
            if times == 2:
                arena.wait_for_log("Received ", [victim])
                arena.fleet.kill(victim, sent)
        arena.fleet.wait(workers=victims)
        reasons = [event.what for victim in victims for event in arena.fleet.events("closed", victim)]
        assert not clean or reasons == ["shutdown"] * len(victims), reasons
        return Outcome(len(victims), len(victims) * explained)


_end("sigint", "Workers are told to stop (SIGINT, Ctrl-C). Nothing is repeated.", signal.SIGINT, 1, 0)
_end("sigterm", "Workers are told to stop (SIGTERM). Nothing is repeated.", signal.SIGTERM, 1, 0)
_end(
    "sigterm-twice",
    f"Workers are told to stop twice, so they stop at once. Each explains {UNRELEASED} repeats.",
    signal.SIGTERM,
    2,
    UNRELEASED,
)


@scenario(
    "deadly-page",
    "A page kills every worker that parses it, and is set aside after FRONTIER_MAX_DELIVERIES deaths. Each "
    "death explains 13 repeats: three and a quarter for each of the CONCURRENT_REQUESTS here.",
)
def deadly_page(arena: Arena) -> Outcome:
    deaths, concurrency = arena.choose(3, 5), 4
    settings = {"FRONTIER_MAX_DELIVERIES": deaths, "CONCURRENT_REQUESTS": concurrency}
    arena.crawl("kill", workers=0, pages=20, FRONTIER_LEASE_TIMEOUT=1, **settings)
    arena.join(2)
    while not arena.fleet.reasons():
        assert len(arena.fleet.workers) < deaths + 4, "more deaths than were allowed"
        arena.wait(lambda: len(arena.alive()) < 2, "nobody died, and nobody finished")
        if not arena.fleet.reasons() and arena.client.llen("kill:failed") == 0:
            arena.join(1)
    failed = [json.loads(entry) for entry in arena.client.lrange("kill:failed", 0, -1)]
    assert [entry["deaths"] for entry in failed] == [deaths], failed
    assert json.loads(failed[0]["data"])["url"] == page_url(7)
    assert failed[0]["history"].count("died:") == deaths, failed
    assert failed[0]["deliveries"] >= deaths, failed
    return Outcome(deaths, deaths * unreleased(concurrency), absent={page_url(7)})


@scenario(
    "kill-young",
    "Workers are killed (SIGKILL) as soon as they have joined, repeatedly, before any of them begins a "
    f"request. Nothing is set aside. Each explains {UNRELEASED} repeats.",
)
def kill_young(arena: Arena) -> Outcome:
    kills = arena.choose(4, 12)
    arena.crawl(workers=0, pages=60, FRONTIER_MAX_DELIVERIES=2, FRONTIER_LEASE_TIMEOUT=1)
    for number in range(kills):
        # It dies with what it was given, of which it has said nothing.
        (victim,) = arena.join(environment={"KILL_AT": "handed:1"})
        arena.wait(lambda victim=victim: victim not in arena.alive(), f"worker {number} lives")
    arena.join(2)
    arena.settle()
    assert not arena.client.llen("graph:failed"), arena.client.lrange("graph:failed", 0, 2)
    return Outcome(kills, kills * UNRELEASED)
