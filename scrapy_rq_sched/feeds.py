"""Feed exports of several workers: a file for each of them, or one that ``scrapy frontier crawl`` writes."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.extensions.feedexport import FeedExporter, FileFeedStorage, ItemFilter
from scrapy.utils.misc import load_object

from .codec.setting_reader import SettingReader
from .engine.bridge import find_scheduler
from .engine.remarks import Remark
from .errors import SettingError, UnserializableItemError, one_line
from .runtime.identity import worker_name
from .servers.addresses import show_feed

#: The setting by which ``scrapy frontier crawl`` names to its workers the feeds that it has dealt with.
JOINED = "FRONTIER_JOINED_FEEDS"

_PLACEHOLDER = re.compile(r"%\((\w+)\)")
#: Scrapy's parameters of a feed's URI that may be equal for two workers: ``time`` has whole seconds.
_SAME_FOR_ALL = frozenset(("name", "time", "batch_id"))
_names: WeakKeyDictionary[Crawler, str] = WeakKeyDictionary()


def uri_params(params: dict[str, Any], spider: Spider) -> dict[str, Any]:
    """Return *params* with ``worker``: the name of this worker in Redis.

    It allows ``%(worker)s`` in the URI of a feed. ``scrapy_rq_sched.Scheduler`` does that by itself; with
    another scheduler, set ``FEED_URI_PARAMS = "scrapy_rq_sched.feeds.uri_params"``. A spider's own attribute
    ``worker`` has precedence.

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


def feeds_in(settings: Any) -> dict[str | Path, dict[str, Any]]:
    """Return the options of each feed in Scrapy's *settings*, by its URI or path."""
    feeds = {uri: dict(options or {}) for uri, options in settings.getdict("FEEDS").items()}
    if settings.get("FEED_URI"):  # the older name of the setting
        feeds = {settings.get("FEED_URI"): {"format": settings.get("FEED_FORMAT")}, **feeds}
    return feeds


def is_same_for_all(uri: str) -> bool:
    """Return whether all workers write a feed to the same place. The standard output is not such a place."""
    return not (uri.startswith("stdout:") or set(_PLACEHOLDER.findall(uri)) - _SAME_FOR_ALL)


def remarks(settings: Any) -> Iterator[Remark]:
    """Yield the remark on feeds that all workers share, if Scrapy's *settings* have some.

    ``scrapy frontier crawl`` has said it of those that it leaves to its workers.
    """
    joined = _joined(settings)
    shared = [show_feed(str(uri)) for uri in feeds_in(settings) if is_same_for_all(str(uri))]
    uris = [uri for uri in shared if uri not in joined]
    if not uris:
        return
    several, names = ("Feeds", "their URIs") if len(uris) > 1 else ("Feed", "its URI")
    yield Remark(
        f"{several} {', '.join(map(repr, uris))}: all workers have the same URI. If this is the same place "
        "for them, one worker damages or replaces the items of another",
        f"Put %(worker)s into {names}, as in {with_worker(uris[0])!r}; or, for one file with each item "
        "once, use scrapy frontier crawl",
    )


def is_local(uri: str) -> bool:
    """Return whether a feed's *uri* is that of a file on this machine."""
    return uri.startswith("file://") or ("://" not in uri and not uri.startswith("stdout:"))


def with_worker(uri: str) -> str:
    """Return *uri* with ``%(worker)s`` before the file's ending."""
    folder, slash, file = uri.rpartition("/")
    stem, dot, ending = file.partition(".")
    return f"{folder}{slash}{stem}-%(worker)s{dot}{ending}"


def _joined(settings: Any) -> dict[str, str]:
    """Return the tokens of the files that ``scrapy frontier crawl`` writes, by the feeds' URIs as shown.

    The token of a feed that it leaves to its workers is empty.
    """
    try:
        return dict(SettingReader(settings).feeds(JOINED, ()))
    except SettingError:
        return {}  # the crawl is refused because of it


def leave_joined(crawler: Crawler) -> None:
    """Have Scrapy not write the feeds that ``scrapy frontier crawl`` writes for all workers."""
    joined = _joined(crawler.settings)
    exporter = crawler.get_extension(FeedExporter) if joined and crawler.extensions is not None else None
    if exporter is None:
        return
    for key in feeds_in(crawler.settings):
        if joined.get(show_feed(str(key))):
            exporter.feeds.pop(str(key.absolute()) if isinstance(key, Path) else str(key), None)


class Choice:
    """Names the files of ``scrapy frontier crawl`` that an item is for: ``item_classes``, ``item_filter``.

    :param settings: Scrapy's settings, with those that the command has set.
    :raises SettingError: if a filter or a class cannot be loaded.
    """

    def __init__(self, settings: Any) -> None:
        self._tokens = str(settings.get("FRONTIER_FEED") or "").split(",")
        self._filters: dict[str, tuple[str, Any]] = {}
        joined = _joined(settings)
        for key, options in feeds_in(settings).items():
            uri = show_feed(str(key))
            if joined.get(uri) and has_filter(options):
                self._filters[joined[uri]] = (uri, _load_filter(uri, options))

    def __bool__(self) -> bool:
        """Whether an item may be for some of the files only."""
        return bool(self._filters)

    def __call__(self, item: Any) -> str:
        """Return the tokens of the files that *item* is for, with commas between them.

        :raises UnserializableItemError: if a filter raises an exception.
        """
        return ",".join(token for token in self._tokens if self._accepts(token, item))

    def _accepts(self, token: str, item: Any) -> bool:
        uri, its_filter = self._filters.get(token, ("", None))
        try:
            return its_filter is None or bool(its_filter.accepts(item))
        except Exception as error:  # the user's code may raise anything
            raise UnserializableItemError(
                f"the item_filter of feed {uri!r} has raised {one_line(repr(error))}. Correct the filter"
            ) from error


def has_filter(options: Mapping[str, Any]) -> bool:
    """Return whether a feed with these *options* has some of the items only."""
    return bool(options.get("item_classes") or options.get("item_filter"))


def _load_filter(uri: str, options: dict[str, Any]) -> Any:
    try:
        return load_object(options.get("item_filter", ItemFilter))(options)
    except Exception as error:  # the user's code may raise anything
        raise SettingError(
            f"Feed {uri!r} of FEEDS has an item_filter or item_classes that cannot be loaded: "
            f"{one_line(repr(error))}. Correct its options"
        ) from error


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
