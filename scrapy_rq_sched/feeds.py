"""Feed exports of several workers: a part of a feed's URI that is different for each worker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, unquote, urlparse
from weakref import WeakKeyDictionary

from scrapy import Spider
from scrapy.crawler import Crawler

from .engine.bridge import find_scheduler
from .engine.remarks import Remark
from .runtime.identity import worker_name
from .servers.addresses import show_feed

#: The value of ``FEED_URI_PARAMS`` that the add-on sets.
URI_PARAMS = "scrapy_rq_sched.feeds.uri_params"

#: The scheme of one worker's part of a file. ``scrapy frontier crawl`` joins the parts.
PART_SCHEME = "frontier-part"

_PLACEHOLDER = re.compile(r"%\((\w+)\)")
#: Scrapy's parameters of a feed's URI that may be equal for two workers: ``time`` has whole seconds.
_SAME_FOR_ALL = frozenset(("name", "time", "batch_id"))
_names: WeakKeyDictionary[Crawler, str] = WeakKeyDictionary()


def uri_params(params: dict[str, Any], spider: Spider) -> dict[str, Any]:
    """Return *params* with ``worker``: the name of this worker in Redis.

    It allows ``%(worker)s`` in the URI of a feed. The add-on sets it up; without the add-on, set
    ``FEED_URI_PARAMS = "scrapy_rq_sched.feeds.uri_params"``. A spider's own attribute ``worker`` has
    precedence.

    :param params: Scrapy's own parameters of the URI, and the attributes of *spider*.
    """
    return {"worker": _worker(spider.crawler), **params}


def _worker(crawler: Crawler) -> str:
    name = getattr(find_scheduler(crawler), "name", None)
    if isinstance(name, str):
        return name
    # Another scheduler has no name: make one, and use it for all feeds of this crawler.
    return _names.setdefault(crawler, worker_name())


def give_worker_name(settings: Any, spider: Spider, name: str) -> None:
    """Set the attribute ``worker`` of *spider*, if a feed's URI contains it and the spider does not have it.

    Scrapy makes a spider's attributes parameters of the URIs, so that this needs no setting.
    """
    feeds = [*settings.getdict("FEEDS"), settings.get("FEED_URI") or ""]
    if any("%(worker)" in str(uri) for uri in feeds) and not hasattr(spider, "worker"):
        spider.worker = name  # type: ignore[attr-defined] # only for the URIs


def feeds_for_all(settings: Any) -> Iterator[tuple[str, bool]]:
    """Yield the URI of each feed that all workers share, and whether it can contain ``%(worker)s``.

    A feed to the standard output is not shared.

    :param settings: Scrapy's settings.
    """
    feeds = settings.getdict("FEEDS")
    if settings.get("FEED_URI"):  # the older name of the setting
        feeds = {settings.get("FEED_URI"): {}, **feeds}
    for uri, options in feeds.items():
        text = str(uri)
        params = (options or {}).get("uri_params", settings.get("FEED_URI_PARAMS"))
        if text.startswith(("stdout:", f"{PART_SCHEME}:")) or set(_PLACEHOLDER.findall(text)) - _SAME_FOR_ALL:
            continue
        yield text, params in (URI_PARAMS, uri_params)


def remarks(settings: Any) -> Iterator[Remark]:
    """Yield the remark on feeds that all workers share, if Scrapy's *settings* have some."""
    found = list(feeds_for_all(settings))
    if not found:
        return
    uris = [show_feed(uri) for uri, _ in found]
    several, names = ("Feeds", "their URIs") if len(uris) > 1 else ("Feed", "its URI")
    hint = "" if all(has_worker for _, has_worker in found) else f", and set FEED_URI_PARAMS = {URI_PARAMS!r}"
    yield Remark(
        f"{several} {', '.join(map(repr, uris))}: all workers have the same URI. If this is the same place "
        "for them, one worker damages or replaces the items of another",
        f"Put %(worker)s into {names}, as in {with_worker(uris[0])!r}{hint}; or store items with "
        "RedisPipeline",
    )


def with_worker(uri: str) -> str:
    """Return *uri* with ``%(worker)s`` before the file's ending."""
    folder, slash, file = uri.rpartition("/")
    stem, dot, ending = file.partition(".")
    return f"{folder}{slash}{stem}-%(worker)s{dot}{ending}"


def part_uri(path: Path) -> str:
    """Return the URI of a part. It has no %, which some versions of Scrapy unescape in a feed's URI."""
    return f"{PART_SCHEME}://{quote(str(path)).replace('%', '=')}"


class PartStorage:
    """A feed storage for one worker's part of a file. ``scrapy frontier crawl`` joins the parts.

    It has no buffer: an item is in the file before its page is released, so that ``kill -9`` loses no item.

    :param uri: of :func:`part_uri`.
    """

    def __init__(self, uri: str, *, feed_options: dict[str, Any] | None = None) -> None:
        self._path = Path(unquote(urlparse(uri).path.replace("=", "%")))

    def open(self, spider: Spider) -> IO[bytes]:
        """Open the file for appending, and return it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return self._path.open("ab", buffering=0)

    def store(self, file: IO[bytes]) -> None:
        """Close *file*."""
        file.close()
