"""Write the table of verdicts, for a terminal and as a page of the documentation."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import version

from scrapy_rq_sched.embedded import server_executable

from .arena import LEASES
from .referee import POLITE, Verdict
from .scenarios import SCENARIOS

#: The columns of the table: each has the name of a field of a verdict, a heading, and what its numbers are.
_FIELDS = {
    "scenario": ("scenario", "the name of the faults; they are described [below](#scenarios)."),
    "faults": ("faults", "the number of faults during the crawl."),
    "workers": ("workers", "the number of processes that were started."),
    "pages": ("pages", "the number of pages of the site."),
    "missing": (
        "missing",
        "the number of pages that were never parsed: lost. `bound-drop` drops requests on purpose.",
    ),
    "missing_again": (
        "missing next",
        "the number of pages that a second crawl never parsed. Two workers begin it with the same spider and "
        "settings, after the first crawl is over and all keys with a time to live have expired. It must end "
        "as `finished`. A dash means that there was no second crawl.",
    ),
    "repeated": ("repeated", "the number of downloads of pages that had been downloaded before."),
    "explained": (
        "most repeats",
        "the most repeats that the faults explain: requests that a worker had begun and not released when it "
        "died. With more, the scenario fails.",
    ),
    "early": (
        "closed early",
        "the number of workers that closed as `finished` before all pages had been parsed.",
    ),
    "late": (
        "closed late",
        "the number of workers that did not close within three leases and 10 s after the last page.",
    ),
    "seed": (
        "seed",
        "the start of the random choices, to repeat them: `python -m tests.chaos --only NAME --seed SEED`.",
    ),
}
COLUMNS = [heading for heading, _ in _FIELDS.values()]
#: Wide enough for the longest name.
WIDTH = max(map(len, SCENARIOS)) + 1
#: The scenarios that matter most to users, and what happens in them in a few words.
LEADING = {
    "kill-random": "workers are killed (`kill -9`) at random moments",
    "sigint": "workers are stopped (Ctrl-C)",
    "cut": "the connections to Redis break",
    "redis-crash": "Redis is killed, and comes back later than a lease",
    "failover-not-waited": "a replica that lags takes the place of Redis",
    "redis-full": "Redis has no memory left, and has room again later",
    "deadly-page": "a page kills every worker; it is set aside after five deaths",
    "items-all": "workers and `frontier crawl -o` are killed; the file has each item once",
    "polite-kill": "workers that keep a delay together are killed",
    "upgrade": "workers of an older version are killed, and a newer version continues",
}


def cells(verdict: Verdict) -> list[str]:
    """Return a row."""
    values = [getattr(verdict, name) for name in _FIELDS]
    return ["-" if value is None else str(value) for value in values]


def line(texts: list[str], after: str = "") -> str:
    """Return a row for a terminal."""
    first, *rest = texts
    columns = zip(COLUMNS[1:], rest, strict=True)
    cells = "".join(f"{text:>{max(10, len(column) + 2)}}" for column, text in columns)
    return f"{first:{WIDTH}}{cells}" + f"  {after}".rstrip()


def remark(verdict: Verdict) -> str:
    """Return ``ok``, or why it was not played, or the complaints; and why it was played again."""
    if verdict.skipped:
        return f"SKIPPED: {verdict.skipped}"
    result = "ok" if verdict.ok else "NOT OK: " + ", ".join(verdict.complaints)
    return "; ".join([result, *(f"played again: {reason}" for reason in verdict.voided)])


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
    return f"""## Delays

In the following scenarios each host has a delay that all workers together must keep.

- **least gap** is the shortest time between two requests to one host, from any workers, as a share of the
  delay.
- **too soon** is the number of gaps shorter than {POLITE:g} of the delay. If a process was held up and
  therefore recorded a request late, the request counts from the beginning of that hold-up.
- **rate** is the number of requests to the host with the most pages, as a share of the number that the delay
  allows.

<details>
<summary>The table of {len(verdicts)} scenarios with a delay</summary>

| scenario | least gap | too soon | rate |
| --- | ---: | ---: | ---: |
{rows}

</details>

"""


def _repeats(verdicts: list[Verdict]) -> str:
    again = [f"- **{verdict.scenario}**: {reason}" for verdict in verdicts for reason in verdict.voided]
    if not again:
        return ""
    rows = "\n".join(again)
    return f"""The following scenarios were played again, and everything lasted twice as long each time. In
the play before, the machine kept a worker from a processor for so long that this could have caused what was
found. Missing pages are never excused in this way.

{rows}

"""


def _table(rows: list[list[str]], texts: int = 1) -> str:
    """Return a table with its head first; all columns but the first *texts* have numbers."""
    head, *others = rows
    lines = ["---"] * texts + ["---:"] * (len(head) - texts)
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, lines, *others])


def _leading(verdicts: list[Verdict]) -> str:
    played = {verdict.scenario: verdict for verdict in verdicts}
    rows = [
        [text, f"`{name}`", str(found.faults), f"{found.pages:,}", str(found.missing), str(found.repeated)]
        for name, text in LEADING.items()
        if (found := played.get(name))
    ]
    return _table([["what happens", "scenario", "faults", "pages", "missing", "repeated"], *rows], texts=2)


def page(verdicts: list[Verdict], long: bool) -> str:
    """Return the page: what was run, the rows that matter most, all rows, and what each scenario does."""
    software = (
        f"Python {platform.python_version()}, Scrapy {version('scrapy')}, redis-py {version('redis')}, "
        f"Redis {redis_version()}"
    )
    polite = [verdict for verdict in verdicts if verdict.least_gap is not None]
    noted = [verdict for verdict in verdicts if verdict.skipped or not verdict.ok]
    broken = [f"- **{verdict.scenario}**: {remark(verdict)}" for verdict in noted]
    abouts = [f"- **{verdict.scenario}**: {SCENARIOS[verdict.scenario].about}" for verdict in verdicts]
    all_in_all = "\n".join(
        ["Scenarios that failed or were skipped:", "", *broken] if broken else ["All scenarios passed."]
    )
    pages = sum(verdict.pages for verdict in verdicts)
    minutes = sum(verdict.seconds for verdict in verdicts) / 60
    form = "long" if long else "short"
    columns = "\n".join(f"- **{heading}**: {text}" for heading, text in _FIELDS.values())
    return f"""# Ledger of faults

`make chaos` writes this page. Real `scrapy crawl` processes crawl a simulated site or a local HTTP server,
with a real Redis and a proxy that can fail, while faults are caused one after the other. The first table has
the faults that users meet most. *Missing* is the number of pages that were lost, *repeated* the number of
downloads of pages that had been downloaded before.

{_leading(verdicts)}

{all_in_all}

`make test` runs a part of the scenarios in a shorter form: for each protection of the crawl, the
scenario that notices its absence best, and the scenarios of restarts.

{software}. {len(verdicts)} scenarios in their {form} form, {pages:,} pages, {minutes:.0f} minutes. Redis
writes to its disk before it answers (`appendfsync always`). Leases last {LEASES[long]:g} s unless a scenario
needs another time.

## All scenarios

{columns}

<details>
<summary>The table of all {len(verdicts)} scenarios</summary>

{_table([COLUMNS, *map(cells, verdicts)])}

</details>

{_politeness(polite)}{_repeats(verdicts)}## Scenarios

<details>
<summary>What happens in each of the {len(verdicts)} scenarios</summary>

{chr(10).join(abouts)}

</details>
"""
