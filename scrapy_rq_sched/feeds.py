"""Feed exports of several workers: a part of a feed's URI that differs for each of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlparse
from weakref import WeakKeyDictionary

from scrapy import Spider
from scrapy.crawler import Crawler

from .engine.bridge import find_scheduler
from .runtime.identity import worker_name

#: What ``FEED_URI_PARAMS`` names; the add-on sets it.
URI_PARAMS = "scrapy_rq_sched.feeds.uri_params"

#: The scheme of a file that ``scrapy frontier crawl`` joins with those of other workers.
PART_SCHEME = "frontier-part"

_PLACEHOLDER = re.compile(r"%\((\w+)\)")
#: What Scrapy puts into a feed's URI that may be the same for two workers: its ``time`` has whole seconds.
_SAME_FOR_ALL = frozenset(("name", "time", "batch_id"))
_names: WeakKeyDictionary[Crawler, str] = WeakKeyDictionary()


def uri_params(params: dict[str, Any], spider: Spider) -> dict[str, Any]:
    """Return *params* with ``worker``: the name that this worker has in Redis.

    Set ``FEED_URI_PARAMS = "scrapy_rq_sched.feeds.uri_params"``, unless the add-on is used, which does so.
    Then ``%(worker)s`` may be in the URI of a feed. A spider's own attribute ``worker`` has precedence.

    :param params: what Scrapy puts into the URI by itself, and the attributes of *spider*.
    """
    return {"worker": _worker(spider.crawler), **params}


def _worker(crawler: Crawler) -> str:
    name = getattr(find_scheduler(crawler), "name", None)
    if isinstance(name, str):
        return name
    # Another scheduler, which has no name: the same one for each of the feeds, all the same.
    return _names.setdefault(crawler, worker_name())


def give_worker_name(settings: Any, spider: Spider, name: str) -> None:
    """Give *spider* an attribute ``worker`` where a feed's URI asks for it and nothing else gives it.

    Scrapy puts a spider's attributes into the URIs of its feeds, so no setting is needed for it.
    """
    feeds = [*settings.getdict("FEEDS"), settings.get("FEED_URI") or ""]
    if any("%(worker)" in str(uri) for uri in feeds) and not hasattr(spider, "worker"):
        spider.worker = name  # type: ignore[attr-defined] # it is only for the URIs


def feeds_for_all(settings: Any) -> Iterator[tuple[str, bool]]:
    """Yield the URI of each feed that is the same for all workers, and whether it may have ``%(worker)s``.

    What is written to the standard output is each worker's own.

    :param settings: Scrapy's.
    """
    feeds = settings.getdict("FEEDS")
    if settings.get("FEED_URI"):  # the older name of it
        feeds = {settings.get("FEED_URI"): {}, **feeds}
    for uri, options in feeds.items():
        text = str(uri)
        params = (options or {}).get("uri_params", settings.get("FEED_URI_PARAMS"))
        if text.startswith(("stdout:", f"{PART_SCHEME}:")) or set(_PLACEHOLDER.findall(text)) - _SAME_FOR_ALL:
            continue
        yield text, params in (URI_PARAMS, uri_params)


def with_worker(uri: str) -> str:
    """Return *uri* with a part that differs for each worker, before its ending."""
    folder, slash, file = uri.rpartition("/")
    stem, dot, ending = file.partition(".")
    return f"{folder}{slash}{stem}-%(worker)s{dot}{ending}"


class PartStorage:
    """A feed storage for a file that ``scrapy frontier crawl`` joins with those of other workers.

    It has no buffer: an item is in the file before its page is released, so that a ``kill -9`` loses none.

    :param uri: ``frontier-part://`` and an absolute path.
    """

    def __init__(self, uri: str, *, feed_options: dict[str, Any] | None = None) -> None:
        self._path = Path(unquote(urlparse(uri).path))

    def open(self, spider: Spider) -> IO[bytes]:
        """Return the file, opened to be appended to."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return self._path.open("ab", buffering=0)

    def store(self, file: IO[bytes]) -> None:
        """Close *file*."""
        file.close()
