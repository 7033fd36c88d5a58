"""The table of verdicts, for a terminal and as a page of the documentation."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import version

from scrapy_rq_sched.embedded import server_executable

from .arena import LEASES
from .referee import POLITE, Verdict
from .scenarios import SCENARIOS

COLUMNS = [
    "scenario",
    "faults",
    "workers",
    "pages",
    "missing",
    "missing again",
    "repeated",
    "explained",
    "early",
    "late",
    "seed",
]
#: Wide enough for the longest name.
WIDTH = max(map(len, SCENARIOS)) + 1


def cells(verdict: Verdict) -> list[str]:
    """Return a row."""
    values = [getattr(verdict, column.replace(" ", "_")) for column in COLUMNS]
    return ["-" if value is None else str(value) for value in values]


def line(texts: list[str], after: str = "") -> str:
    """Return a row for a terminal."""
    first, *rest = texts
    columns = zip(COLUMNS[1:], rest, strict=True)
    cells = "".join(f"{text:>{max(10, len(column) + 2)}}" for column, text in columns)
    return f"{first:{WIDTH}}{cells}" + f"  {after}".rstrip()


def remark(verdict: Verdict) -> str:
    """Return what else is to say of a verdict."""
    return "ok" if verdict.ok else "NOT OK: " + ", ".join(verdict.complaints)


def redis_version() -> str:
    """Return the version of the Redis server that the scenarios run."""
    said = subprocess.run([server_executable(), "--version"], capture_output=True, text=True, check=True)
    return said.stdout.partition("v=")[2].split()[0]


def _politeness(verdicts: list[Verdict]) -> str:
    if not verdicts:
        return ""
    rows = "\n".join(
        f"| {verdict.scenario} | {verdict.least_gap} | {verdict.rude} | {verdict.rate} |"
        for verdict in verdicts
    )
    return f"""In these scenarios each host may be asked only after a delay. **least gap** is the shortest
time between two requests to one host, whichever workers sent them, as a share of the delay; **too soon** is
how many gaps were shorter than {POLITE:g} of it. A request that a process took down late, because it was held
up itself, counts as sent when that began. **rate** is how many requests the host with the most pages was
sent, as a share of what the delay allows.

| scenario | least gap | too soon | rate |
| --- | ---: | ---: | ---: |
{rows}

"""


def page(verdicts: list[Verdict], long: bool) -> str:
    """Return the page: what was run, the table, and what each scenario does."""
    software = (
        f"Python {platform.python_version()}, Scrapy {version('scrapy')}, redis-py {version('redis')}, "
        f"Redis {redis_version()}"
    )
    polite = [verdict for verdict in verdicts if verdict.least_gap is not None]
    rows = [COLUMNS, ["---", *["---:"] * (len(COLUMNS) - 1)], *map(cells, verdicts)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    broken = [f"- **{verdict.scenario}**: {remark(verdict)}" for verdict in verdicts if not verdict.ok]
    abouts = [f"- **{verdict.scenario}**: {SCENARIOS[verdict.scenario].about}" for verdict in verdicts]
    all_in_all = "\n".join(["Not as it should be:", "", *broken] if broken else ["All is as it should be."])
    pages = sum(verdict.pages for verdict in verdicts)
    minutes = sum(verdict.seconds for verdict in verdicts) / 60
    form = "long" if long else "short"
    return f"""# Ledger of faults

Real `scrapy crawl` processes crawl a site of pages without a network, over a real Redis and a proxy that can
fail, and one thing after the other is done to them. This page is written by `make chaos`. `make test`
plays a part of the scenarios in a shorter form: for each protection of the crawl the one that sees best
whether it is there.

{software}. {len(verdicts)} scenarios in their {form} form, {pages} pages, {minutes:.0f} minutes. Redis
writes to its disk before it answers (`appendfsync always`); leases last
{LEASES[long]:g} s unless the scenario needs others.

{table}

{all_in_all}

{_politeness(polite)}- **faults** were made while the crawl ran.
- **workers** is how many processes were started.
- **missing** pages were never parsed.
- **missing again** pages were never parsed by another crawl of the same spider, which two workers began with
  the same settings when the first was over and every key that has a time to live had expired. It has to end
  as `finished`. Where there is a dash, there was no such crawl.
- **repeated** is how many downloads were of a page that had been downloaded before, and **explained** how
  many the faults account for at the most: what a worker had begun and not released when it died.
- **early** is how many workers closed as `finished` before some page was first parsed.
- **late** is how many workers did not end within three leases and 10 s of the last page.
- **seed** makes the same random choices again: `python -m tests.chaos --only NAME --seed SEED`.

## What each does

{chr(10).join(abouts)}
"""
