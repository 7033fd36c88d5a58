"""A crawl of many hosts with a delay: how long it takes, how soon half of it is done, and how polite it is.

By itself: ``python -m benchmarks.broad --hosts 1000 --pages 5000 --delay 0.1 --workers 1 4``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from .arena import MEMORY, OURS, PEER, Arena, Contender, Crawl
from .figures import Figures, Options, console
from .project.bench.broad import sizes

#: Seconds that a download takes.
LATENCY = 0.05
#: The shortest time between two requests to a host, as a share of the delay, that is not too soon.
POLITE = 0.95


class Site(NamedTuple):
    """What is crawled.

    :param delay: seconds between two requests to a host.
    """

    hosts: int = 60
    pages: int = 1500
    delay: float = 0.1

    @property
    def limit(self) -> float:
        """Seconds in which its largest host may have been asked for all of its pages."""
        return (max(sizes(self.hosts, self.pages)) - 1) * self.delay


def run(arena: Arena, options: Options) -> Figures:
    """Crawl it with each contender in turn."""
    site = Site(8, 60, 0.1) if options.quick else Site()
    return measure(arena, options, site, [1, 4])


def measure(arena: Arena, options: Options, site: Site, workers: list[int]) -> Figures:
    """Crawl *site* with each contender, and with ours as fleets of these numbers of *workers*."""
    figures = Figures()
    contenders = [(Contender(MEMORY), 1), (Contender(PEER), 1), (Contender(OURS, 10.0), 1)]
    contenders += [(Contender(OURS), count) for count in workers]
    for _ in options.turns("broad", options.rounds):
        for contender, count in contenders:
            _measure(arena, contender, count, site, figures)
    return figures


def crawl_broad(
    arena: Arena,
    contender: Contender,
    site: Site,
    asked: Path,
    *,
    workers: int,
    environment: dict[str, str] | None = None,
    during: Callable[[list[subprocess.Popen[bytes]]], object] = lambda processes: None,
) -> Crawl:
    """Crawl *site*; what it is asked goes to the file *asked*."""
    handlers = {"http": "bench.broad.Handler", "https": None, "ftp": None, "s3": None}
    return arena.crawl(
        contender,
        "broad",
        workers=workers,
        during=during,
        environment={"ASKED": str(asked), **(environment or {})},
        DOWNLOAD_HANDLERS=json.dumps(handlers),
        BROAD_HOSTS=site.hosts,
        BROAD_PAGES=site.pages,
        SITE_LATENCY=LATENCY,
        DOWNLOAD_DELAY=site.delay,
        RANDOMIZE_DOWNLOAD_DELAY=False,
    )


def asked_of(file: Path) -> list[tuple[float, str]]:
    """Return what the site was asked so far, by time: when, and the host."""
    lines = file.read_text().splitlines() if file.exists() else []
    # A killed worker may have begun the last line.
    whole = [line.split() for line in lines if line.count(" ") == 2]
    return sorted((float(at), url.split("/")[2]) for at, _, url in whole)


def too_soon(asked: list[tuple[float, str]], delay: float) -> float:
    """Return the share of requests that came too soon after the one before to the same host."""
    by_host = defaultdict(list)
    for at, host in asked:
        by_host[host].append(at)
    gaps = [after - before for its in by_host.values() for before, after in pairwise(its)]
    return sum(gap < POLITE * delay for gap in gaps) / max(1, len(gaps))


def _measure(arena: Arena, contender: Contender, workers: int, site: Site, figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "asked"
        crawl = crawl_broad(arena, contender, site, file, workers=workers)
        asked = asked_of(file)
    times = [at for at, _ in asked]
    whole = times[-1] - times[0]
    name = str(contender) + (f", {workers} workers" if workers > 1 else "")
    figures.add(
        name,
        seconds=whole,
        half=times[len(times) // 2] - times[0],
        of_limit=site.limit / whole,
        too_soon=too_soon(asked, site.delay),
        redis_us=crawl.figures()["redis_us"],
    )


def main() -> None:
    """Crawl what the command line says, and print the medians."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.broad", description=__doc__)
    parser.add_argument("--hosts", type=int, default=Site().hosts, help="of Zipf sizes")
    parser.add_argument("--pages", type=int, default=Site().pages, help="of all hosts")
    parser.add_argument("--delay", type=float, default=Site().delay, help="seconds")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 4], help="of our fleets")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contender")
    said = parser.parse_args()
    site = Site(said.hosts, said.pages, said.delay)
    with Arena.open() as arena:
        figures = measure(arena, Options(said.rounds, quick=False), site, said.workers)
    console.print(f"The hosts allow {site.limit:.1f} s")
    for name in figures.values:
        shown = {
            figure: figures.median(name, figure) for figure in ("seconds", "half", "of_limit", "too_soon")
        }
        console.print(f"{name:32}" + "  ".join(f"{figure} {value:.3f}" for figure, value in shown.items()))


if __name__ == "__main__":
    main()
