"""Write the results: tables in ``benchmarks.md``, a chart, and the raw figures."""

from __future__ import annotations

import datetime
import json
import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from os import cpu_count
from pathlib import Path
from typing import Any

from . import checkout
from .arena import MEMORY, OURS, PEER, ROOT
from .figures import Figures
from .targets import targets

#: For each workload: its title, and its columns as (figure, heading, format).
WORKLOADS: dict[str, tuple[str, list[tuple[str, str, str]]]] = {
    "crawl": (
        "A crawl without a network",
        [
            ("pages_per_second", "pages/s", ".0f"),
            ("cpu_ms", "worker CPU a page (ms)", ".2f"),
            ("commands", "client commands a page", ".3f"),
            ("redis_us", "Redis CPU a page (µs)", ".0f"),
            ("bytes", "bytes a page", ".0f"),
        ],
    ),
    "growing": (
        "A crawl that finds ten new links on every page",
        [
            ("pages_per_second", "pages/s", ".0f"),
            ("cpu_ms", "worker CPU a page (ms)", ".2f"),
            ("redis_us", "Redis CPU a page (µs)", ".0f"),
            ("bytes", "bytes a page", ".0f"),
        ],
    ),
    "replay": (
        "The same exchanges with and without pauses",
        [("redis_us", "Redis CPU a page (µs)", ".0f")],
    ),
    "http": (
        "A crawl over sockets, with link extraction",
        [("pages_per_second", "pages/s", ".0f"), ("cpu_ms", "worker CPU a page (ms)", ".2f")],
    ),
    "items": (
        "A crawl with one item a page",
        [
            ("pages_per_second", "pages/s", ".0f"),
            ("of_file", "ratio to a file", ".3f"),
            ("cpu_ms", "worker CPU a page (ms)", ".2f"),
            ("exchanges", "exchanges a page", ".3f"),
            ("redis_us", "Redis CPU a page (µs)", ".0f"),
            ("more_redis_us", "of that for the item", ".1f"),
            ("bytes_an_item", "bytes an item", ".0f"),
        ],
    ),
    "item_sizes": (
        "Items of different sizes",
        [
            ("pages_per_second", "pages/s", ".0f"),
            ("of_file", "ratio to a file", ".3f"),
            ("cpu_ms", "worker CPU a page (ms)", ".2f"),
            ("more_redis_us", "Redis CPU an item (µs)", ".0f"),
        ],
    ),
    "fleet": (
        "A fleet",
        [
            ("pages_per_second", "pages/s", ".0f"),
            ("of_ideal", "share of the possible pages/s", ".2f"),
            ("fairness", "slowest worker / mean", ".2f"),
            ("redis_us", "Redis CPU a page (µs)", ".0f"),
        ],
    ),
    "cores": (
        "The cores of one machine, with link extraction",
        [("pages_per_second", "pages/s", ".0f"), ("cpu_ms", "worker CPU a page (ms)", ".2f")],
    ),
    "broad": (
        "A crawl of 60 hosts, with a delay of 0.1 s",
        [
            ("seconds", "whole crawl (s)", ".1f"),
            ("half", "half of the pages (s)", ".1f"),
            ("of_limit", "share of the allowed rate", ".2f"),
            ("too_soon", "requests before the delay ended", ".1%"),
            ("redis_us", "Redis CPU a page (µs)", ".0f"),
        ],
    ),
    "polite_cost": (
        "Cost of politeness in Redis",
        [
            ("pages_per_second", "pages/s", ".0f"),
            ("exchanges", "exchanges a page", ".2f"),
            ("exchanges_per_second", "exchanges a second and worker", ".1f"),
            ("redis_us", "Redis CPU a page (µs)", ".0f"),
        ],
    ),
    "slots": (
        "Cost of slots in Redis",
        [("redis_us", "Redis CPU a page (µs)", ".1f"), ("bytes_a_slot", "bytes a slot", ".0f")],
    ),
    "connections": (
        "Connections to 60 hosts",
        [
            ("connections", "connections a host", ".2f"),
            ("robots", "robots.txt a host", ".2f"),
            ("seconds", "whole crawl (s)", ".1f"),
        ],
    ),
    "seeds": (
        "Seeds",
        [
            ("latency_ms", "seed to first request (ms)", ".1f"),
            ("drained_per_second", "seeds read a second", ".0f"),
            ("drained", "number of seeds", ".0f"),
        ],
    ),
    "idle": (
        "Idle workers",
        [
            ("redis_percent", "Redis CPU (% of a core)", ".2f"),
            ("more_percent", "of that for the workers", ".2f"),
            ("latency_ms", "seed to first request (ms)", ".1f"),
        ],
    ),
    "memory": (
        "Memory in Redis",
        [("bytes_a_url", "bytes a URL seen", ".1f"), ("bytes_a_request", "bytes a waiting request", ".0f")],
    ),
    "large": (
        "A large frontier",
        [("pages_per_second", "pages/s", ".0f"), ("redis_us", "Redis CPU a page (µs)", ".0f")],
    ),
    "start_stop": (
        "Start and stop",
        [
            ("start_s", "process start to first request (s)", ".2f"),
            ("stop_s", "last response to end (s)", ".2f"),
        ],
    ),
    "commands": (
        "`scrapy frontier` on a million waiting requests and five million URLs seen",
        [
            ("seconds", "run time (s)", ".2f"),
            ("redis_ms", "longest step in Redis (ms)", ".1f"),
            ("memory_mb", "memory of the command (MB)", ".0f"),
        ],
    ),
    "metrics": (
        "Metrics for Prometheus",
        [
            ("pages_per_second", "pages/s", ".0f"),
            ("of_alone", "ratio to alone", ".3f"),
            ("scrapes", "scrapes a second", ".1f"),
            ("redis_us", "Redis CPU a page (µs)", ".0f"),
            ("snapshot_redis_ms", "Redis CPU a snapshot (ms)", ".2f"),
            ("snapshot_s", "time of a snapshot (s)", ".3f"),
        ],
    ),
}
_ONE_COMMIT = "All figures: {}."
_COMMITS = """**The tables are of different commits.** Each table names its own: do not compare figures of two
tables. The figures to reach are taken from all of them."""
_HEAD = """# Benchmarks

`make bench` writes this page. Contenders take turns within one run. Each figure is the median of its rounds,
with the smallest and the largest round in parentheses. **In memory** is Scrapy's own scheduler without a
disk; a ratio to it is the median of the ratios of the rounds. Compare ratios: absolute figures are those of
one machine. [How the benchmarks are made](benchmarking.md).

{commits}

![Pages a second, as a ratio to Scrapy in memory](benchmarks.svg)

## The figures to reach

"""


@dataclass
class Results:
    """The figures of each workload, with the versions of the software and the commit that was measured.

    :ivar commits: as :func:`checkout.commit` returns them; none for old figures.
    """

    figures: dict[str, Figures] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)
    commits: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Results:
        """Return the results in the file at *path*; empty if there is no file."""
        if not path.exists():
            return cls()
        raw = json.loads(path.read_text())
        figures = {name: Figures(**values) for name, values in raw["figures"].items()}
        return cls(figures, raw["about"], raw.get("commits", {}))

    def add(self, workload: str, figures: Figures, server: str, date: str, commit: str) -> None:
        """Replace the figures of a workload."""
        self.figures[workload], self.commits[workload] = figures, commit
        names = ("scrapy", "redis", "hiredis", "twisted", "scrapy-redis", "scrapy-rq-sched")
        versions = ", ".join(f"{name} {version(name)}" for name in names)
        python = f"Python {platform.python_version()}"
        self.about[workload] = f"{date}: {cpu_count()} cores, {python}, Redis server {server}, {versions}"

    def write(self, folder: Path) -> None:
        """Write the tables, the chart and the raw figures."""
        figures = {name: asdict(each) for name, each in self.figures.items()}
        raw = {"about": self.about, "commits": self.commits, "figures": figures}
        text = json.dumps(raw, indent=1)
        # One line for the rounds of a figure.
        text = re.sub(r"\[[^\[\]{}]*\]", lambda found: re.sub(r"\s+", " ", found.group()), text)
        (folder / "benchmarks.json").write_text(text + "\n")
        (folder / "benchmarks.md").write_text(self.page())
        if "crawl" in self.figures:
            _chart(self.figures["crawl"], folder / "benchmarks.svg")

    def page(self) -> str:
        """Return the page of tables."""
        heads = ["", PEER, OURS, "to reach", ""]
        commits = {self.commits.get(name, "") for name in self.figures}
        is_one = len(commits) == 1 and "" not in commits
        head = _HEAD.format(commits=_ONE_COMMIT.format(checkout.named(*commits)) if is_one else _COMMITS)
        parts = [head + _table(heads, (target.cells() for target in targets(self.figures)))]
        for name, (title, columns) in WORKLOADS.items():
            if name in self.figures:
                about = self.about[name] + ("" if is_one else f"; {self._commit(name)}")
                parts.append(f"## {title}\n\n{_workload(self.figures[name], columns)}\n{about}.\n")
        return "\n".join(parts)

    def ages(self, today: datetime.date, folder: Path = ROOT) -> Iterator[str]:
        """Yield a line for each workload: how many commits and days its figures are behind."""
        for name in WORKLOADS:
            if name not in self.figures:
                yield f"{name:12} not measured"
                continue
            days = (today - datetime.date.fromisoformat(self.about[name].partition(":")[0])).days
            measured = self.commits.get(name, "")
            since = checkout.commits_since(measured, folder) if measured else None
            if since is not None:
                behind = f", {since} commit{'' if since == 1 else 's'} since"
            else:
                behind = ", which this checkout does not have" if measured else ""
            yield f"{name:12} {days} day{'' if days == 1 else 's'} old, {self._commit(name)}{behind}"

    def _commit(self, workload: str) -> str:
        return checkout.named(self.commits.get(workload, ""))


def _workload(figures: Figures, columns: list[tuple[str, str, str]]) -> str:
    has_base = any(figures.of(MEMORY, name) for name, _, _ in columns)
    rows = []
    for contender in figures.values:
        row = [contender]
        for place, (name, _, form) in enumerate(columns):
            row.append(_cell(figures.of(contender, name), figures.median(contender, name), form))
            if not place and has_base:
                row.append(
                    _cell(
                        figures.ratios(contender, MEMORY, name), figures.ratio(contender, MEMORY, name), ".3f"
                    )
                )
        rows.append(row)
    heads = [heading for _, heading, _ in columns]
    if has_base:
        heads.insert(1, "ratio to in memory")
    return _table(["", *heads], rows)


def _cell(rounds: list[float], median: float | None, form: str) -> str:
    if median is None:
        return ""
    if len(rounds) == 1:
        return format(median, form)
    return f"{median:{form}} ({min(rounds):{form}} to {max(rounds):{form}})"


def _table(heads: list[str], rows: Iterable[list[str]]) -> str:
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _chart(figures: Figures, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "benchmarks"  # the same figures make the same file
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3.6))
    for name, color in ((OURS, "#2a7f62"), (PEER, "#b5533c")):
        ratios: Mapping[float, float | None] = {
            distance: figures.ratio(_at(name, distance), MEMORY, "pages_per_second")
            for distance in (0, 2, 10, 50)
        }
        shown: dict[float, Any] = {distance: ratio for distance, ratio in ratios.items() if ratio is not None}
        places = [list(ratios).index(distance) for distance in shown]
        axes.plot(places, list(shown.values()), marker="o", color=color, label=name)
        for place, ratio in zip(places, shown.values(), strict=True):
            text = f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.3f}"
            axes.annotate(text, (place, ratio), (0, 7), textcoords="offset points", ha="center")
    axes.axhline(1.0, color="#666666", linestyle="--", linewidth=1, label="Scrapy in memory")
    axes.set_xticks(range(4), ["loopback", "2 ms", "10 ms", "50 ms"])
    axes.set_xlabel("round trip to Redis")
    axes.set_ylabel("pages/s, ratio to in memory")
    axes.set_ylim(0, 1.25)
    axes.legend(loc="center right")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _at(name: str, distance: float) -> str:
    return f"{name}, {distance:g} ms away" if distance else name
