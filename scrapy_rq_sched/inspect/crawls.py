"""Read the history of a spider's crawls."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .. import connection
from ..codec.values import number_of, text_of, whole_of
from ..frontier.scripts import register
from .cause import has_no_page
from .crawl import Crawl, CrawledSlot, CrawlWorker, moment_of
from .view import View

#: Crawls that are read in one step.
STEP = 100
#: Bytes of an entry that are read, at most. A worker writes far fewer.
LONGEST = 256 * 1024


class Crawls:
    """The history of *view*'s frontier."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._key = view.keys.crawls
        self._compose = register(view.server, "history")

    def numbers(self) -> list[int]:
        """Return the numbers of the crawls in the history, the latest first.

        :raises redis.exceptions.RedisError: if Redis does not answer.
        """
        try:
            found = self._server.hkeys(self._key)
        except connection.ResponseError:  # the key has another type, or this user may not read it
            return []
        return sorted((int(name) for name in found if name.isdigit() and len(name) < 16), reverse=True)

    def read(self, numbers: Sequence[int], with_charts: bool = False) -> Iterator[Crawl]:
        """Yield the crawls with these *numbers*, in their order, without those that are not in the history.

        :param with_charts: whether to read their histories, too.
        :raises redis.exceptions.RedisError: if Redis does not answer.
        """
        for begin in range(0, len(numbers), STEP):
            some = numbers[begin : begin + STEP]
            names = [str(number) for number in some]
            texts = self._server.hmget(self._key, names)
            charts = self._server.hmget(self._key, [f"{name} chart" for name in names]) if with_charts else []
            for place, text in enumerate(texts):
                found = parse(text, charts[place] if with_charts else None, self._view.keys.prefix)
                if found is not None:
                    yield found

    def current(self, state: str) -> Crawl | None:
        """Return the crawl that has no end yet, or None.

        :param state: how it stands: see :class:`.status.Status`.
        :raises redis.exceptions.RedisError: if Redis does not answer.
        """
        reply = self._compose(self._view.keys.all(), [state])
        return parse(reply[0], reply[1], self._view.keys.prefix) if reply else None

    @property
    def _server(self) -> Any:
        return connection.server_of(self._view.server, self._view.keys.requests)


def parse(text: bytes | None, chart: bytes | None, prefix: str) -> Crawl | None:
    """Return the crawl of an entry, as ``lua/fleet/crawls.lua`` writes it; None if *text* is empty."""
    entry, points = _json(text), _json(chart)
    if not entry:
        return None
    workers = [_worker(one) for one in _list(entry.get("workers")) if isinstance(one, dict)]
    first = next(
        (_json(one.get("about")) for one in _list(entry.get("workers")) if isinstance(one, dict)), {}
    )
    counts = _counts(entry.get("done"))
    moments = [moment_of(str(point).encode("utf-8", "replace")) for point in _list(points.get("points"))]
    crawl = Crawl(
        run=whole_of(entry.get("run")),
        spider=str(entry.get("spider") or ""),
        key=prefix,
        state=str(entry.get("state") or ""),
        reason=str(entry.get("reason") or ""),
        began=number_of(entry.get("began")) / 1000,
        ended=number_of(entry.get("ended")) / 1000,
        pages=whole_of(entry.get("pages")),
        items=whole_of(entry.get("items")),
        errors=whole_of(entry.get("errors")),
        set_aside=_counts(entry.get("aside")),
        returned=whole_of(entry.get("returned")),
        counts={name: count for name, count in counts.items() if not name.isdigit()},
        statuses={name: counts[name] for name in sorted(counts) if name.isdigit()},
        joined=whole_of(entry.get("joined")),
        lost=whole_of(entry.get("lost")),
        workers=workers,
        slots=whole_of(entry.get("slots")),
        largest=_slots(entry.get("largest")),
        slowest=_slots(entry.get("slowest")),
        settings=_json(entry.get("settings")),
        version=str(first.get("version", "")),
        scrapy=str(first.get("scrapy", "")),
        width=max(1, whole_of(points.get("width"))),
        history=[moment for moment in moments if moment is not None],
    )
    if not has_no_page(crawl):
        return crawl
    return replace(crawl, pages=0, history=[moment._replace(pages=0) for moment in crawl.history])


def counts_of(text: str) -> dict[str, int]:
    """Return the counts of a worker, as it has reported them: ``<name>=<number> …``."""
    pairs = (pair.partition("=") for pair in text.split())
    return {name: whole_of(value) for name, _, value in pairs if value.isascii() and value.isdigit()}


def _worker(entry: Mapping[str, Any]) -> CrawlWorker:
    about, lost = _json(entry.get("about")), number_of(entry.get("lost")) / 1000
    left = number_of(entry.get("left")) / 1000
    return CrawlWorker(
        name=str(entry.get("name", "")),
        host=str(about.get("host", "")),
        pid=whole_of(about.get("pid")),
        log=str(about.get("log", "")),
        joined=number_of(entry.get("joined")) / 1000,
        ended=lost or left,
        how="lost" if lost else "left" if left else "",
        counts=counts_of(str(entry.get("done", ""))),
    )


def _slots(value: Any) -> list[CrawledSlot]:
    rows = [row for row in _list(value) if isinstance(row, list) and len(row) == 3]
    return [CrawledSlot(str(name), whole_of(count), number_of(ms) / 1000) for name, count, ms in rows]


def _counts(value: Any) -> dict[str, int]:
    return {str(name): whole_of(count) for name, count in value.items()} if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _json(value: Any) -> dict[str, Any]:
    """Return the JSON object in *value*; an empty dict if it has no such object."""
    if not isinstance(value, (str, bytes)) or len(value) > LONGEST:
        return {}
    try:
        found = json.loads(text_of(value) if isinstance(value, bytes) else value)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
