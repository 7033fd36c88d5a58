"""Feed exports of several workers: a part of a feed's URI that is different for each worker."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.extensions.feedexport import FeedExporter, FileFeedStorage

from .engine.bridge import find_scheduler
from .engine.remarks import Remark
from .runtime.identity import worker_name
from .servers.addresses import show_feed

#: The value of ``FEED_URI_PARAMS`` that the add-on sets.
URI_PARAMS = "scrapy_rq_sched.feeds.uri_params"

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
        if text.startswith("stdout:") or set(_PLACEHOLDER.findall(text)) - _SAME_FOR_ALL:
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
        f"Put %(worker)s into {names}, as in {with_worker(uris[0])!r}{hint}; or, for one file with each item "
        "once, use scrapy frontier crawl -o",
    )


def is_local(uri: str) -> bool:
    """Return whether a feed's *uri* is that of a file on this machine."""
    return uri.startswith("file://") or ("://" not in uri and not uri.startswith("stdout:"))


def with_worker(uri: str) -> str:
    """Return *uri* with ``%(worker)s`` before the file's ending."""
    folder, slash, file = uri.rpartition("/")
    stem, dot, ending = file.partition(".")
    return f"{folder}{slash}{stem}-%(worker)s{dot}{ending}"


def write_whole_items(crawler: Crawler) -> None:
    """Let Scrapy write local files with ``%(worker)s`` in their names by :class:`WholeItemsStorage`.

    A storage that ``FEED_STORAGES`` sets for files is used as it is.
    """
    if crawler.extensions is None:
        return  # the scheduler is used without a crawl
    exporter = crawler.get_extension(FeedExporter)
    if exporter is None or not any("%(worker)" in str(uri) for uri in exporter.feeds):
        return
    for scheme in ("", "file"):
        if exporter.storages.get(scheme) is FileFeedStorage:
            exporter.storages[scheme] = WholeItemsStorage


class WholeItemsStorage(FileFeedStorage):
    """A feed storage for a worker's own file: an item is in the file before its page is released.

    ``scrapy_rq_sched.Scheduler`` uses it for local files with ``%(worker)s`` in their names. For other files,
    name it in ``FEED_STORAGES``: ``{"file": "scrapy_rq_sched.feeds.WholeItemsStorage"}``.

    If an item cannot be written, the file ends with the last one that could, and the worker closes: its pages
    are crawled by other workers.
    """

    def open(self, spider: Spider) -> io.FileIO:
        """Open the file without a buffer, and return it."""
        Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        return _WholeItems(self.path, self.write_mode, spider.crawler)


class _WholeItems(io.FileIO):
    """A file that has all of a write, or nothing of it."""

    def __init__(self, path: str, mode: str, crawler: Crawler) -> None:
        super().__init__(path, mode)
        self._path = path
        self._crawler = crawler
        self._has_failed = False

    def write(self, data: Any) -> int:
        size = os.fstat(self.fileno()).st_size
        rest = memoryview(data)
        try:
            while rest:
                # A full disk may take a part of the data without an error.
                rest = rest[super().write(rest) or 0 :]
        except OSError as error:
            self.truncate(size)
            self._fail(error)
            raise
        return len(data)

    def _fail(self, error: OSError) -> None:
        scheduler = find_scheduler(self._crawler)
        if self._has_failed or not hasattr(scheduler, "fail_begun"):
            return
        self._has_failed = True
        scheduler.fail_begun(
            f"an item cannot be written to {self._path}: {error}. Its page and all others that this worker "
            "has begun are crawled by other workers. Make room, or write to another disk, and start it again"
        )
