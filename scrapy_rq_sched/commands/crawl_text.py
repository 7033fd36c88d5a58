"""A crawl of the history, for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import frontier_command
from ..inspect.cause import cause_of
from ..inspect.comparison import Difference, differences, in_words
from ..inspect.crawl import Crawl, CrawledSlot
from ..inspect.rates import peak_of, rates_of
from .formats import duration, number, rate, single_line, size, sparkline, when
from .output import Fields, Part, Styled, Table
from .states import in_state

#: The states of a crawl that has ended.
ENDED = ("finished", "stopped", "cleared")
#: The parts of a chart in a terminal.
BARS = 60
#: Slots and reasons that are shown, at most.
MOST = 5
#: The words for counts that are shown only if they are not 0.
_FURTHER = {
    "retries": "retries",
    "exceptions": "without a response",
    "duplicates": "duplicates",
    "robots": "forbidden by robots.txt",
    "offsite": "offsite",
    "http_errors": "dropped because of their status",
    "callback_errors": "with an exception in the callback",
    "dropped_items": "items dropped by pipelines",
}
#: The words of these for 1.
_ONE = {
    "retries": "retry",
    "duplicates": "duplicate",
    "items dropped by pipelines": "item dropped by pipelines",
}


def crawl_text(crawl: Crawl, before: Crawl | None) -> list[Part]:
    """Return all that is known of *crawl*.

    :param before: the crawl to compare it with, or None.
    """
    change = {one.figure: one for one in differences(crawl, before)} if before else {}
    pairs: list[tuple[str, str]] = [
        ("spider", single_line(crawl.spider)),
        ("run", str(crawl.run) + (f", compared with {before.run}" if before else "")),
        ("state", in_state(crawl.state)),
        *([("reason", single_line(crawl.reason))] if crawl.reason else []),
        ("began", when(crawl.began)),
        *([("ended", when(crawl.ended))] if crawl.state in ENDED else []),
        ("took", duration(crawl.seconds) + _than(change.get("seconds"))),
        *figures(crawl, change),
        *([("cause", single_line(cause_of(crawl)))] if crawl.state == "finished" and cause_of(crawl) else []),
        *chart(crawl),
    ]
    parts: list[Part] = [Fields(pairs)]
    for title, slots in (("LARGEST SLOTS", crawl.largest), ("SLOWEST SLOTS", crawl.slowest)):
        if crawl.slots > 1 and slots:
            parts += ["", _slots_table(title, slots)]
    if crawl.workers:
        parts += ["", _workers_table(crawl)]
    return parts


def figures(crawl: Crawl, change: Mapping[str, Difference]) -> list[tuple[str, str]]:
    """Return the pages, items, errors and responses of *crawl*.

    :param change: the figures that are compared with an earlier crawl.
    """
    pairs = [
        ("pages", f"{number(crawl.pages)}, {rate(crawl.per_second)} a second{_than(change.get('pages'))}")
    ]
    if crawl.run:  # else only an event tells of it
        pairs += [
            ("items", number(crawl.items) + _than(change.get("items"))),
            ("errors", _red(crawl.errors, _than(change.get("errors")))),
        ]
    pairs.append(("failed", _failed(crawl)))
    if crawl.statuses:
        pairs.append(("statuses", statuses(crawl.statuses)))
    if crawl.counts.get("bytes"):
        pairs.append(("received", size(crawl.counts["bytes"])))
    known = {text: crawl.counts.get(name, 0) for name, text in _FURTHER.items()}
    known = {_ONE.get(text, text) if count == 1 else text: count for text, count in known.items() if count}
    further = [f"{number(count)} {text}" for text, count in known.items()]
    if crawl.returned:
        further.append(f"{number(crawl.returned)} of dead workers crawled again")
    if further:
        pairs.append(("also", ", ".join(further)))
    lost = f", of which {crawl.lost} died" if crawl.lost else ""
    if crawl.joined:
        pairs.append(("workers", number(crawl.joined) + lost))
    if crawl.settings:
        pairs.append(("settings", ", ".join(f"{name}={value}" for name, value in crawl.settings.items())))
    if crawl.version:
        pairs.append(("version", f"scrapy-rq-sched {crawl.version}, Scrapy {crawl.scrapy}"))
    return [(name, text if isinstance(text, Styled) else single_line(text)) for name, text in pairs]


def _failed(crawl: Crawl) -> str:
    """Return how many requests were moved to the failed list, by kind."""
    rows = sorted(crawl.set_aside.items(), key=lambda row: -row[1])
    listed = ", ".join(f"{single_line(kind)}: {number(count)}" for kind, count in rows[:MOST] if kind)
    command = frontier_command("failed", crawl.spider)
    if not crawl.failed:
        return "0"
    return _red(crawl.failed, f" ({listed}): {command}" if listed else f" ({command})")


def statuses(found: Mapping[str, int]) -> str:
    """Return the responses by HTTP status."""
    return ", ".join(f"{status}: {number(count)}" for status, count in sorted(found.items()))


def chart(crawl: Crawl) -> list[tuple[str, str]]:
    """Return a sparkline of the pages over the whole crawl; nothing if it had none."""
    rates = rates_of(crawl.history, crawl.began, crawl.ended, BARS, crawl.width)
    if not any(rates):
        return []
    return [("pages over time", Styled(f"{sparkline(rates)}  peak {rate(peak_of(crawl))} a second", "cyan"))]


def _slots_table(title: str, slots: Iterable[CrawledSlot]) -> Table:
    some = list(slots)[:MOST]
    rows = [[single_line(slot.slot), number(slot.responses), f"{slot.seconds:.2f} s"] for slot in some]
    return Table([title, "RESPONSES", "ON AVERAGE"], rows)


def _workers_table(crawl: Crawl) -> Table:
    rows = [
        [
            single_line(worker.name),
            duration((worker.ended or crawl.ended) - worker.joined),
            in_state({"lost": "dead", "left": "left"}.get(worker.how, "alive")),
            number(worker.counts.get("responses", 0)),
            single_line(worker.log) or "-",
        ]
        for worker in crawl.workers
    ]
    table = ["WORKER", "FOR", "STATE", "RESPONSES", "LOG"]
    return Table(table, rows, dispensable=("LOG",))


def _than(difference: Difference | None) -> str:
    words = in_words(difference) if difference is not None else ""
    return f", {words}" if words else ""


def _red(count: Any, text: str) -> str:
    whole = f"{number(count)}{text}"
    return Styled(whole, "red") if count else whole
