"""How polite a crawl is, as the hosts see it: ``python -m benchmarks.polite --hosts 200 --rounds 10``.

Many hosts record over HTTP when each request arrives. Scrapy alone and a fleet crawl them in turn. The hosts
have a robots.txt, redirect to each other, and answer with 503 at times. The exit code is 1 if the fleet
fetched a forbidden page, or had more gaps that were too short than Scrapy alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import urllib.request
from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

from .arena import MEMORY, OURS, Arena, BenchmarkError, Contender
from .figures import console
from .hosts_site import address
from .http import OVER_SOCKETS, site
from .polite_site import ALLOWED

#: The shortest gap between two requests to a host, as a share of the delay, that is not too short.
POLITE = 0.9


class Seen(NamedTuple):
    """What the hosts have seen of a crawl.

    :param forbidden: requests for pages that robots.txt forbids.
    :param too_short: gaps between two pages of a host that were too short, of :param gaps: in all.
    :param too_short_with_robots: the same, if requests for robots.txt count, too.
    :param least: the shortest gap, in seconds.
    :param robots: requests for robots.txt, for each host.
    :param rate: the median host's requests, as a share of those that the delay allowed in their time.
    :param seconds: from the first request to the last.
    """

    forbidden: int
    too_short: int
    too_short_with_robots: int
    gaps: int
    least: float
    robots: float
    rate: float
    seconds: float


def look(asked: list[tuple[float, str, str]], hosts: int, delay: float) -> Seen:
    """Return what the hosts have seen, from the time, the host and the path of each request."""
    asked = sorted(request for request in asked if request[2] != "/start")
    pages, every = defaultdict(list), defaultdict(list)
    for at, host, path in asked:
        every[host].append(at)
        if path != "/robots.txt":
            pages[host].append(at)
    gaps, with_robots = (
        [after - before for its in of for before, after in pairwise(its)]
        for of in (pages.values(), every.values())
    )
    rates = sorted((len(times) - 1) * delay / (times[-1] - times[0]) for times in pages.values())
    return Seen(
        sum(path.startswith("/forbidden") for _, _, path in asked),
        sum(gap < POLITE * delay for gap in gaps),
        sum(gap < POLITE * delay for gap in with_robots),
        len(gaps),
        min(gaps),
        sum(path == "/robots.txt" for _, _, path in asked) / hosts,
        rates[len(rates) // 2],
        asked[-1][0] - asked[0][0],
    )


def crawl(arena: Arena, contender: Contender, workers: int, hosts: int, delay: float) -> Seen:
    """Crawl the hosts, and return what they have seen.

    :raises BenchmarkError: if not every allowed page was fetched as often as it must be.
    """
    with site("polite_site", hosts) as port:
        arena.crawl(
            contender,
            "polite",
            "-a",
            f"first=http://{address(0)}:{port}/start",
            workers=workers,
            DOWNLOAD_HANDLERS=OVER_SOCKETS,
            DOWNLOAD_DELAY=delay,
            RANDOMIZE_DOWNLOAD_DELAY=False,
            ROBOTSTXT_OBEY=True,
            LOG_LEVEL="ERROR",
        )
        with urllib.request.urlopen(f"http://{address(0)}:{port}/figures") as answer:
            asked = json.load(answer)
    allowed = sum(not path.startswith(("/forbidden", "/robots", "/start")) for _, _, path in asked)
    if allowed != ALLOWED * hosts:
        raise BenchmarkError(f"{contender}: {allowed} requests for allowed pages, not {ALLOWED * hosts}")
    return look(asked, hosts, delay)


def main() -> int:
    """Crawl what the command line says, print what the hosts have seen, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.polite", description=__doc__)
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument(
        "--delay",
        type=float,
        default=1.0,
        help="seconds; without a delay, most requests wait for a robots.txt",
    )
    parser.add_argument("--workers", type=int, default=4, help="of our fleet")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each contender")
    options = parser.parse_args()
    contenders = [(Contender(MEMORY), 1), (Contender(OURS), options.workers)]
    found: dict[str, list[Seen]] = defaultdict(list)
    with Arena.open() as arena:
        for _ in range(options.rounds):
            for contender, workers in contenders:
                seen = crawl(arena, contender, workers, options.hosts, options.delay)
                found[contender.name].append(seen)
                shown = "  ".join(
                    f"{name} {value:.3f}" if isinstance(value, float) else f"{name} {value}"
                    for name, value in seen._asdict().items()
                )
                console.print(f"{contender.name:16}{shown}", soft_wrap=True, highlight=False)
    totals = {
        name: tuple(map(sum, zip(*((seen.forbidden, seen.too_short) for seen in rounds), strict=True)))
        for name, rounds in found.items()
    }
    for name, (forbidden, too_short) in totals.items():
        console.print(f"{name}: {forbidden} forbidden pages fetched, {too_short} gaps too short in all")
    return int(totals[OURS][0] > 0 or totals[OURS][1] > totals[MEMORY][1])


if __name__ == "__main__":
    sys.exit(main())
