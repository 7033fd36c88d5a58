"""Limits of slots when workers come back, requests are redirected, and spiders share: a site counts."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable

from tests.support.crawl import run_python

from .arena import Arena, unreleased
from .counting_site import MARGIN, REAL_DOWNLOADS, CountingSite, Limit
from .deaths import MANY
from .referee import Outcome
from .registry import scenario

#: Addresses with a limit of one request at a time, with a delay, with a rate, and without a rule.
SINGLE, DELAYED, RATED, PLAIN = ["127.0.0.2", "127.0.0.3", "127.0.0.4"], "127.0.0.5", "127.0.0.6", "127.0.0.7"
#: The address of the first page, which no rule is for.
FIRST = "127.0.0.10"
#: Seconds between two requests, and until an answer.
DELAY, LATENCY = 0.5, 0.3
AT_A_TIME = 3
#: How many requests each worker may have begun.
CONCURRENCY = 16
UNRELEASED = unreleased(CONCURRENCY)

RULES = {
    **{host: {"concurrency": 1} for host in SINGLE},
    DELAYED: {"delay": DELAY, "jitter": 0},
    RATED: {"rate": f"{60 / DELAY:.0f}/m", "jitter": 0},
}
RULED = {
    **{host: Limit(concurrency=1) for host in SINGLE},
    DELAYED: Limit(DELAY),
    RATED: Limit(DELAY),
}
#: What else the workers are given, and what then holds for each host.
CONFIGURATIONS: dict[str, tuple[dict[str, object], dict[str, Limit]]] = {
    "fleet": (
        {"FRONTIER_FLEET_LIMITS": "delay,concurrency", "CONCURRENT_REQUESTS_PER_DOMAIN": AT_A_TIME},
        {**RULED, PLAIN: Limit(concurrency=AT_A_TIME)},
    ),
    "rules": ({}, RULED),
    "delay": (
        {"DOWNLOAD_DELAY": DELAY, "RANDOMIZE_DOWNLOAD_DELAY": "False"},
        {**RULED, **{host: Limit(DELAY, 1) for host in SINGLE}, PLAIN: Limit(DELAY)},
    ),
}
Restart = Callable[[Arena, CountingSite], int]


def _complaints(arena: Arena, site: CountingSite, limits: dict[str, Limit], since: float = 0.0) -> list[str]:
    """Return in which way the requests since then broke these limits."""
    lags = ((event.time, float(event.what)) for event in arena.fleet.events("lag"))
    stalls = [(when - lag - MARGIN, when + MARGIN) for when, lag in lags]
    # The time between a worker's decision and the site's record is not the fleet's.
    return site.complaints(limits, arena.choose(0.5, 0.8), since, stalls)


def _serve(arena: Arena, hosts: list[str], latency: float = LATENCY) -> CountingSite:
    return arena.enter(CountingSite(hosts, latency, arena.fleet.record).served())


def _crawl(arena: Arena, site: CountingSite, workers: int, *arguments: str, **settings: object) -> None:
    """Start a crawl from the first page, which leads to all pages that *site* has by now."""
    first = site.url(FIRST, "first")
    site.texts[first] = "\n".join(sorted(arena.pages - {first}))
    pages = sorted({first, *arena.pages})
    arena.crawl(
        "sites",
        "-a",
        f"first={first}",
        *arguments,
        workers=0,
        pages=len(pages),
        urls=pages.__getitem__,
        SPIDER_MODULES="crawls.second_life",
        CONCURRENT_REQUESTS=CONCURRENCY,
        **MANY,
        **REAL_DOWNLOADS,
        **settings,
    )
    # It is the site that counts: its hosts have limits of their own.
    arena.delay = 0.0
    arena.join(workers)
    arena.all_opened()


def _keep_limits(arena: Arena, restart: Restart, explained: int) -> Outcome:
    """Have *restart* befall crawls with rules, and see that the site's limits hold all the time.

    :param explained: the most repeated downloads that one fault explains.
    """
    site = _serve(arena, [*SINGLE, DELAYED, RATED, PLAIN, FIRST])
    first = site.url(FIRST, "first")
    each, faults, pages, complaints = arena.choose(8, 30), 0, {first}, []
    lease = {} if explained else arena.without_deaths
    names = arena.choose(["fleet"], list(CONFIGURATIONS))
    for name in names:
        settings, limits = CONFIGURATIONS[name]
        arena.pages = {site.url(host, f"{name}/{n}") for host in limits for n in range(each)}
        pages |= arena.pages
        begun = time.time()
        _crawl(arena, site, 2, FRONTIER_SLOTS=json.dumps(RULES), **settings, **lease)
        for part in range(arena.choose(1, 3)):
            done = (part + 1) * each // arena.choose(4, 6)
            _wait_for_visits(arena, site, SINGLE[0], f"{name}/", done)
            faults += restart(arena, site)
        arena.settle()
        complaints += [f"{name}: {text}" for text in _complaints(arena, site, limits, begun)]
        assert arena.share == 1, f"{name}: {arena.share:.0%} of the pages are parsed"
    assert not complaints, "; ".join(complaints)
    site.latency, arena.pages = 0, pages
    _forget_limits(arena)
    site.texts[first] = "\n".join(sorted(pages - {first}))
    # Each crawl asks for the first page.
    return Outcome(faults, faults * explained + len(names) - 1, begun=begun)


def _forget_limits(arena: Arena) -> None:
    """Have the crawl that follows take no longer than it must."""
    arena.settings.update(FRONTIER_SLOTS="{}", DOWNLOAD_DELAY=0)


def _wait_for_visits(arena: Arena, site: CountingSite, host: str, prefix: str, count: int) -> None:
    arena.wait(lambda: len(site.visited(host, prefix)) >= count, f"{host} was not asked {count} times")


def _stop(arena: Arena) -> None:
    workers = arena.alive()
    for worker in workers:
        arena.fleet.kill(worker, signal.SIGINT)
    arena.fleet.wait(workers=workers)


def _start(arena: Arena, count: int) -> None:
    arena.join(count)
    arena.all_opened()


def _frontier(arena: Arena, *arguments: str) -> str:
    """Run ``scrapy frontier``, and return its output."""
    done = run_python(
        "-m",
        "scrapy",
        "frontier",
        *arguments,
        "-s",
        "SPIDER_MODULES=crawls.second_life",
        redis_url=arena.proxy.url,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _resume(arena: Arena, site: CountingSite) -> int:
    _stop(arena)
    _start(arena, 2)
    return 1


def _kill_all(arena: Arena, site: CountingSite) -> int:
    victims = arena.alive()
    for victim in victims:
        arena.fleet.kill(victim)
    # Nobody is there any more, by the server's clock.
    time.sleep(arena.lease)
    _start(arena, 2)
    return len(victims)


def _replace(arena: Arena, site: CountingSite) -> int:
    victim = arena.random.choice(arena.busy())
    arena.fleet.kill(victim)
    _start(arena, 1)
    return 1


def _import(arena: Arena, site: CountingSite) -> int:
    _stop(arena)
    file = str(arena.folder / f"frontier-{time.time()}")
    _frontier(arena, "export", "sites", "--file", file)
    arena.client.flushall()
    _frontier(arena, "import", "sites", "--file", file)
    _start(arena, 2)
    return 1


def _register(name: str, about: str, restart: Restart, explained: int) -> None:
    @scenario(name, f"{ABOUT} {about} {KEPT}", again=True)
    def keep_limits(arena: Arena) -> Outcome:
        return _keep_limits(arena, restart, explained)


ABOUT = "Two workers crawl hosts with rules of concurrency, delay and rate over HTTP."
KEPT = "The site sees no request too soon and never too many at once, from the first request on."
_register(
    "limits-resume",
    "The whole fleet is stopped (SIGINT) and started again. Nothing is repeated.",
    _resume,
    0,
)
_register(
    "limits-kill",
    "The whole fleet is killed and, after its leases, started again. "
    f"Each killed worker explains {UNRELEASED} repeats.",
    _kill_all,
    UNRELEASED,
)
_register(
    "limits-replace",
    f"One of them is killed and replaced. It explains {UNRELEASED} repeats.",
    _replace,
    UNRELEASED,
)
_register(
    "limits-import",
    "They are stopped, the frontier is exported, and they continue with the import. Nothing is repeated.",
    _import,
    0,
)

#: The limits that are set in `limits-reset`, and for how many seconds after a reset they may still be seen.
SET, SETTLING = {SINGLE[0]: Limit(concurrency=2), DELAYED: Limit(DELAY / 2)}, 1.0


@scenario(
    "limits-reset",
    "Two workers crawl hosts with a rule over HTTP. The limits are raised (`scrapy frontier slots set`), and "
    "reset while requests wait. From then on the site sees the limits of the rules. Nothing is repeated.",
)
def limits_reset(arena: Arena) -> Outcome:
    site = _serve(arena, [SINGLE[0], DELAYED, FIRST])
    each, resets, complaints = (
        arena.choose({SINGLE[0]: 30, DELAYED: 16}, {SINGLE[0]: 120, DELAYED: 60}),
        0,
        [],
    )
    arena.pages = {site.url(host, str(n)) for host, count in each.items() for n in range(count)}
    _crawl(arena, site, 2, FRONTIER_SLOTS=json.dumps(RULES), **arena.without_deaths)
    for _ in range(arena.choose(1, 4)):
        _wait_for_visits(arena, site, SINGLE[0], "", len(site.visited(SINGLE[0])) + 2)
        _frontier(arena, "slots", "sites", "set", SINGLE[0], "concurrency=2")
        _frontier(arena, "slots", "sites", "set", DELAYED, f"delay={DELAY / 2}", "jitter=0")
        arena.wait(lambda: site.under_way(SINGLE[0]) == 2, "the new limit is not used")
        before, counts = time.time(), {host: len(site.visited(host)) for host in SET}
        for host in SET:
            _frontier(arena, "slots", "sites", "reset", host)
        kept = time.time() + SETTLING
        # Not at once, but one after the other: so there is still something to see.
        for host in SET:
            _wait_for_visits(arena, site, host, "", min(counts[host] + 10, each[host]))
        complaints += _complaints(arena, site, SET, before)
        complaints += _complaints(arena, site, {host: RULED[host] for host in SET}, kept)
        resets += 1
    arena.settle()
    assert not complaints, "; ".join(complaints)
    for host in SET:
        late = [visit for visit in site.visited(host) if visit.begun > kept]
        assert len(late) > 2, f"{host}: {len(late)} requests were left to see the limit by"
    return Outcome(resets)


#: Addresses whose pages redirect, and the one that they lead to.
SOURCES, TARGET = ["127.0.0.2", "127.0.0.3", "127.0.0.4"], "127.0.0.5"


@scenario(
    "limits-redirects",
    "Pages of three hosts redirect to a fourth one over HTTP, and its pages lead back with the meta of their "
    f"response. The delay and the rule of {TARGET} hold for all requests that it gets. In the long form "
    f"workers are killed, and each explains {UNRELEASED} repeats.",
    again=True,
)
def limits_redirects(arena: Arena) -> Outcome:
    site = _serve(arena, [*SOURCES, TARGET, FIRST], latency=0.05)
    each = arena.choose(4, 40)
    own = [site.url(TARGET, f"own/{n}") for n in range(each)]
    sources = {
        site.url(host, f"source/{n}"): site.url(TARGET, f"{host}/{n}")
        for host in SOURCES
        for n in range(each)
    }
    back = {url: site.url(SOURCES[n % 3], f"back/{n}") for n, url in enumerate(own)}
    # What the first page leads to; then what is reached from there.
    arena.pages = {*own, *sources}
    _crawl(
        arena,
        site,
        0,
        "-a",
        "keep_meta=/own/",
        DOWNLOAD_DELAY=DELAY,
        RANDOMIZE_DOWNLOAD_DELAY="False",
        FRONTIER_SLOTS=json.dumps({TARGET: {"delay": DELAY, "jitter": 0, "concurrency": 1}}),
    )
    site.redirects, site.texts = sources, {**site.texts, **back}
    arena.pages = {*own, *sources.values(), *back.values()}
    arena.join(2)
    arena.all_opened()
    kills = 0
    while kills < arena.choose(0, 3):
        arena.reach(0.2 * (kills + 1))
        kills += _replace(arena, site)
    arena.settle()
    limits = {TARGET: Limit(DELAY, 1), **{host: Limit(DELAY) for host in SOURCES}}
    complaints = _complaints(arena, site, limits)
    assert not complaints, "; ".join(complaints)
    _forget_limits(arena)
    return Outcome(len(sources), kills * UNRELEASED)


@scenario(
    "limits-shared",
    "Two spiders with one FRONTIER_SLOTS_KEY crawl a host with a concurrency over HTTP. Repeatedly, a worker "
    "of the one is killed during its download. The other spider goes on within three leases. The site sees "
    f"never too many requests at once. Each killed worker explains {UNRELEASED} repeats.",
    again=True,
)
def limits_shared(arena: Arena) -> Outcome:
    host = SINGLE[0]
    site = _serve(arena, [host, FIRST])
    each, kills = arena.choose(10, 80), arena.choose(1, 4)
    others = {site.url(host, f"b/{n}") for n in range(each)}
    other = {"first": site.url(FIRST, "other")}
    site.texts[other["first"]] = "\n".join(sorted(others))
    arena.pages = {site.url(host, f"a/{n}") for n in range(each)}
    rules = {"FRONTIER_SLOTS": json.dumps({host: {"concurrency": 1}}), "FRONTIER_SLOTS_KEY": "politeness"}
    # Neither is through before the other is there.
    site.gate.clear()
    _crawl(arena, site, 1, **rules)
    arena.fleet.start("othersites", 1, "-a", f"first={other['first']}", **arena.settings)
    survivor = len(arena.fleet.workers) - 1
    arena.all_opened()
    site.gate.set()
    victim = 0
    for _ in range(kills):
        seen = len(site.visited(host, "b/"))
        arena.wait(lambda seen=seen: len(site.visited(host, "b/")) > seen, "the other spider does not begin")
        arena.wait(lambda: site.under_way(host, "a/"), "there is no download")
        arena.fleet.kill(victim)
        seen = len(site.visited(host, "b/"))
        # Nothing of the dead one's is any more than its lease.
        patience = 3 * arena.lease
        arena.wait(
            lambda seen=seen: len(site.visited(host, "b/")) > seen or survivor not in arena.alive(),
            f"the other spider has not gone on within {patience:g} s",
            patience,
        )
        (victim,) = arena.join()
        arena.all_opened()
    arena.settle()
    missing = others - arena.fleet.urls("parsed", survivor).keys()
    assert not missing, f"{len(missing)} pages of the other spider are missing"
    complaints = _complaints(arena, site, {host: Limit(concurrency=1)})
    assert not complaints, "; ".join(complaints)
    # The other spider is through when its own pages are.
    closed = [event.time for event in arena.fleet.events("closed", survivor)]
    return Outcome(kills, kills * UNRELEASED, begun=max(closed, default=0.0))
