"""The measured figures in the README and in the pages of ``docs/``.

A mark follows each of them, ``1.07<!-- bench: speed -->``, and names a row of :data:`QUOTES`.
``python -m benchmarks --readme`` writes the figures of ``docs/benchmarks.json`` before their marks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from .arena import MEMORY, OURS, PEER, ROOT, BenchmarkError
from .figures import Figures
from .items import COMMAND, LIST, PIPELINE, STREAM
from .polite_cost import CRAWLS
from .replay import AT_ONCE, ONE_LINK, TEN_LINKS

#: By workload.
AllFigures = Mapping[str, Figures]
#: Returns a figure, or None if it was not measured.
Quote = Callable[[AllFigures], float | None]

#: Instead of a figure that was not measured.
DASH = "-"
_QUEUES = ("PriorityQueue", "FifoQueue", "LifoQueue")
_MARK = re.compile(rf"(\d[\d,.]*|{DASH})?<!-- bench: ([\w+-]+) -->")


def names_in(text: str) -> list[str]:
    """Return the names of the figures that *text* quotes."""
    return [match[2] for match in _MARK.finditer(text)]


def without_quotes(text: str) -> str:
    """Return *text* without its marks and their figures."""
    return _MARK.sub("", text)


def filled(text: str, figures: AllFigures) -> str:
    """Return *text* with the measured figure before each mark.

    :raises BenchmarkError: if a mark has no figure before it, or an unknown name.
    """

    def fill(match: re.Match[str]) -> str:
        shown, name = match.groups()
        if name not in QUOTES:
            raise BenchmarkError(f"{match[0]!r} names no figure: add {name!r} to QUOTES, or correct it")
        if shown is None:
            raise BenchmarkError(f"{match[0]!r} must follow a number, or {DASH!r}, without a space")
        quote, form = QUOTES[name]
        value = quote(figures)
        return f"{DASH if value is None else format(value, form)}<!-- bench: {name} -->"

    return _MARK.sub(fill, text)


def pages() -> list[Path]:
    """Return the pages that may quote figures."""
    docs = ROOT / "docs"
    return [ROOT / "README.md", *sorted(docs.glob("*.md")), *sorted(docs.glob("recipes/*.md"))]


def fill_pages(figures: AllFigures) -> list[Path]:
    """Write the measured figures into all pages; return the pages that have changed."""
    changed = []
    for page in pages():
        text = page.read_text()
        new = filled(text, figures)
        if new != text:
            page.write_text(new)
            changed.append(page)
    return changed


def _median(workload: str, contender: str, name: str, scale: float = 1.0) -> Quote:
    def quote(figures: AllFigures) -> float | None:
        median = figures.get(workload, Figures()).median(contender, name)
        return None if median is None else scale * median

    return quote


def _speed(contender: str) -> Quote:
    """Return the speed of a crawl without a network, as a ratio to Scrapy's scheduler in memory."""
    return lambda figures: figures.get("crawl", Figures()).ratio(contender, MEMORY, "pages_per_second")


def _speed_of_rounds(chosen: Callable[[list[float]], float]) -> Quote:
    """Return what is *chosen* of the ratios of the rounds, of which :func:`_speed` returns the median."""

    def quote(figures: AllFigures) -> float | None:
        ratios = figures.get("crawl", Figures()).ratios(OURS, MEMORY, "pages_per_second")
        return chosen(ratios) if ratios else None

    return quote


def _of(calculate: Callable[..., float], *quotes: Quote) -> Quote:
    """Return a figure that is calculated from others, if all of them were measured."""

    def quote(figures: AllFigures) -> float | None:
        values = [each(figures) for each in quotes]
        return None if None in values else calculate(*values)

    return quote


def _full(redis_us: float) -> float:
    """Return at how many pages a second a core of Redis is full, to two digits."""
    return float(f"{1e6 / redis_us:.2g}")


def _loss_of_large(figures: AllFigures) -> float | None:
    """Return by how many per cent a million waiting requests slow down a worker, in the slowest queue."""
    large = figures.get("large", Figures())
    ratios = [
        large.ratio(
            f"{OURS}, {queue}, 1,000,000 waiting", f"{OURS}, {queue}, 10,000 waiting", "pages_per_second"
        )
        for queue in _QUEUES
    ]
    measured = [ratio for ratio in ratios if ratio is not None]
    return 100 * max(0.0, 1 - min(measured)) if len(measured) == len(ratios) else None


def _of_memory() -> dict[str, tuple[Quote, str]]:
    found = {
        "seen-bytes": _median("memory", f"{OURS}, RFPDupeFilter, 1,000,000 URLs", "bytes_a_url"),
        "seen-bytes-100k": _median("memory", f"{OURS}, RFPDupeFilter, 100,000 URLs", "bytes_a_url"),
        "seen-bytes-compact": _median("memory", f"{OURS}, CompactDupeFilter, 1,000,000 URLs", "bytes_a_url"),
        "peer-seen-bytes": _median("memory", f"{PEER}, 1,000,000 URLs", "bytes_a_url"),
    }
    for queue, label in (("PriorityQueue", "priority"), ("FifoQueue", "fifo")):
        for serializer in ("json", "json+deflate", "msgpack", "pickle"):
            name = f"{OURS}, {queue}, {serializer}"
            found[f"request-bytes-{label}-{serializer}"] = _median("memory", name, "bytes_a_request")
    return {name: (quote, ".0f") for name, quote in found.items()}


def _of_items() -> dict[str, tuple[Quote, str]]:
    found = {}
    for label, way in (("list", LIST), ("stream", STREAM), ("file", COMMAND), ("pipeline", PIPELINE)):
        found[f"item-cpu-{label}"] = _median("items", f"{OURS}, {way}", "more_redis_us"), ".0f"
        if way != PIPELINE:
            found[f"item-bytes-{label}"] = _median("items", f"{OURS}, {way}", "bytes_an_item"), ".0f"
    return found


def _of_snapshots() -> dict[str, tuple[Quote, str]]:
    name, figure = "a snapshot, {}", "snapshot_redis_ms"
    return {
        "snapshot-ms": (_median("metrics", name.format("1 slot"), figure), ".2f"),
        "snapshot-ms-1k": (_median("metrics", name.format("1,000 slots"), figure), ".1f"),
        "snapshot-ms-100k": (_median("metrics", name.format("100,000 slots"), figure), ".1f"),
        # Of a core, in per cent, for one a second.
        "snapshot-share": (_median("metrics", name.format("1 slot"), figure, 0.1), ".2f"),
        "snapshot-share-100k": (_median("metrics", name.format("100,000 slots"), figure, 0.1), ".2f"),
        "file-ms-100k": (
            _median("metrics", name.format("100,000 slots, all of them for a file"), figure),
            ".0f",
        ),
        "scraped-pace": (_median("metrics", f"{OURS}, scraped ten times a second", "of_alone"), ".2f"),
    }


def _of_cpu() -> dict[str, tuple[Quote, str]]:
    """Return Redis's processor time a page, and at how many pages a second its core is full."""
    found = {
        "crawl": _median("crawl", OURS, "redis_us"),
        "growing": _median("growing", OURS, "redis_us"),
    }
    # Of the crawls of polite_cost, these have enough hosts for their workers.
    polite = {1: CRAWLS[2], 4: CRAWLS[3], 20: CRAWLS[4]}
    for workers, watched in polite.items():
        found[f"polite-{workers}"] = _median("polite_cost", str(watched), "redis_us")
    full = {f"{name}-full": (_of(_full, quote), ",.0f") for name, quote in found.items()}
    for name, crawl in (("crawl", ONE_LINK), ("growing", TEN_LINKS)):
        found[f"{name}-busy"] = _median("replay", f"{crawl}, {AT_ONCE}", "redis_us")
    return full | {f"{name}-cpu": (quote, ".0f") for name, quote in found.items()}


_FLEET_PACE = _median("fleet", f"{OURS}, 32 workers", "pages_per_second")
_FLEET_CPU = _median("fleet", f"{OURS}, 32 workers", "redis_us")

#: By its name in a mark: a figure, and its format.
QUOTES: dict[str, tuple[Quote, str]] = {
    "speed": (_speed(OURS), ".2f"),
    "speed-least": (_speed_of_rounds(min), ".2f"),
    "speed-most": (_speed_of_rounds(max), ".2f"),
    "speed-10ms": (_speed(f"{OURS}, 10 ms away"), ".2f"),
    "peer-speed": (_speed(PEER), ".2f"),
    "peer-speed-10ms": (_speed(f"{PEER}, 10 ms away"), ".3f"),
    "calls": (_median("crawl", OURS, "commands"), ".2f"),
    "peer-calls": (_median("crawl", PEER, "commands"), ".0f"),
    "crawl-kb": (_median("crawl", OURS, "bytes", 0.001), ".1f"),
    "growing-kb": (_median("growing", OURS, "bytes", 0.001), ".1f"),
    "seed-ms": (_median("seeds", OURS, "latency_ms"), ".0f"),
    "peer-seed-s": (_median("seeds", PEER, "latency_ms", 0.001), ".1f"),
    "fleet-pace": (_FLEET_PACE, ".0f"),
    "fleet-cpu": (_FLEET_CPU, ".0f"),
    "fleet-share": (_of(lambda pace, cpu: 100 * pace * cpu / 1e6, _FLEET_PACE, _FLEET_CPU), ".0f"),
    "large-loss": (_loss_of_large, ".0f"),
    "slot-kb": (
        _of(
            lambda with_slot, without: (with_slot - without) / 1000,
            _median("slots", "a slot, ten requests", "bytes_a_slot"),
            _median("slots", "ten requests without a slot", "bytes_a_slot"),
        ),
        ".1f",
    ),
    **_of_memory(),
    **_of_items(),
    **_of_snapshots(),
    **_of_cpu(),
}
