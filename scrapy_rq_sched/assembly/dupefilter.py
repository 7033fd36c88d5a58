"""The dupefilter and the fingerprints that settings name."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.utils.misc import build_from_crawler, load_object

from .. import connection
from ..codec.values import class_path
from ..dupefilter import CompactDupeFilter, RFPDupeFilter
from ..errors import FrontierMismatchError, SettingError
from ..fingerprints import Fingerprints, ScrapyRedisFingerprinter, only_url_matters
from ..keys import Keys, dupefilter_frontiers
from .keys import check_slots


def check_fingerprints(server: Any, keys: Keys, dupefilter: Any) -> None:
    """Check that fingerprints of scrapy-redis are not compared with fingerprints of another kind.

    If no frontier of this package knows the filter, scrapy-redis has filled it. A dupefilter with its own
    way to make or to look up fingerprints worked in the same way under scrapy-redis, and is not checked.

    :raises FrontierMismatchError: if no fingerprint in the filter would be found again.
    """
    own = getattr(type(dupefilter), "request_fingerprint", None) is not RFPDupeFilter.request_fingerprint
    if own or not filters_in_exchange(dupefilter):
        return
    if isinstance(dupefilter.fingerprinter, ScrapyRedisFingerprinter) or not _is_strange(server, keys):
        return
    setting, seen = "REQUEST_FINGERPRINTER_CLASS", keys.dupefilter
    raise FrontierMismatchError(
        f"{seen!r} contains fingerprints made by scrapy-redis, but {setting} is "
        f"{class_path(type(dupefilter.fingerprinter))!r}, which makes different ones: all pages would be "
        f"crawled again. To use the existing fingerprints, set {setting} = "
        f"'{class_path(ScrapyRedisFingerprinter)}'. To crawl all pages again, delete them: "
        f"redis-cli del {shlex.quote(seen)}"
    )


def _is_strange(server: Any, keys: Keys) -> bool:
    """Return whether the filter has entries, and no worker of this package has made it."""

    def is_filled() -> bool:
        return server.type(keys.dupefilter) in (b"set", "set")

    try:
        # A frontier of this package exists before its first fingerprint, and is cleared together with the
        # last one. A filter that exists before and after these checks does not belong to a fleet that starts
        # or finishes at the same time.
        return (
            is_filled()
            and not server.exists(keys.meta)
            and not server.exists(dupefilter_frontiers(keys.dupefilter), keys.converting)
            and is_filled()
        )
    except connection.ResponseError:
        return False  # a key of a wrong type: joining reports it


def dupefilter_class(settings: Any) -> Any:
    """Return ``DUPEFILTER_CLASS``, or the path of the shared filter if the project has not set it."""
    if settings.getpriority("DUPEFILTER_CLASS"):  # 0: Scrapy's default, which is not shared
        return settings.get("DUPEFILTER_CLASS")
    return class_path(RFPDupeFilter)


def load_dupefilter(crawler: Crawler, spider: Spider, server: Any, key: str, value: Any = None) -> Any:
    """Return the dupefilter that ``DUPEFILTER_CLASS`` names, or the shared one if it is not set.

    As in scrapy-redis, a class's own ``from_spider`` makes the filter, and may give it a key of its own.

    :param key: the key of a filter that is not made by its own ``from_spider``.
    :param value: replaces ``DUPEFILTER_CLASS``, unless it is None.
    :raises SettingError: if the setting does not name a class, or if the class cannot be instantiated.
    """
    value = dupefilter_class(crawler.settings) if value is None else value
    try:
        cls: Any = load_object(value)
    except (ImportError, NameError, ValueError, TypeError) as error:
        raise SettingError(f"DUPEFILTER_CLASS is {value!r}, which cannot be loaded: {error}") from None
    is_ours = isinstance(cls, type) and issubclass(cls, RFPDupeFilter)
    from_spider = getattr(cls, "from_spider", None)
    is_own = getattr(from_spider, "__func__", None) is not RFPDupeFilter.from_spider.__func__  # type: ignore[attr-defined]
    try:
        if from_spider is not None and is_own:
            dupefilter = from_spider(spider)
            if is_ours and "fingerprinter" not in vars(dupefilter):
                dupefilter.fingerprinter = crawler.request_fingerprinter
            return dupefilter
        return cls.with_key(server, key, crawler) if is_ours else build_from_crawler(cls, crawler)
    except TypeError as error:
        raise SettingError(
            f"DUPEFILTER_CLASS is {value!r}, which cannot be instantiated: {error}. If its constructor needs "
            "other arguments than server, key and debug, the class must have a from_spider(spider) that "
            "gives them"
        ) from error


def close_dupefilter(dupefilter: Any, reason: str) -> None:
    """Call the ``close`` of *dupefilter*, but not that of a class made for scrapy-redis.

    scrapy-redis's scheduler never calls it, and the ``close`` of its filter deletes the fingerprints of all
    workers.
    """
    if isinstance(dupefilter, RFPDupeFilter) or not hasattr(dupefilter, "from_spider"):
        dupefilter.close(reason)


def keys_with(dupefilter: Any, keys: Keys, server: Any) -> Keys:
    """Return *keys*, with the key at which *dupefilter* keeps its fingerprints.

    :raises SettingError: if the keys are on several slots of a Cluster.
    """
    own = getattr(dupefilter, "key", keys.dupefilter)
    if not isinstance(own, str) or own == keys.dupefilter:
        return keys
    keys = replace(keys, dupefilter_template=own.replace("%", "%%"))
    check_slots(keys, server)
    return keys


def filters_in_exchange(dupefilter: Any) -> bool:
    """Return whether the exchange can filter for *dupefilter*, in the step that stores requests."""
    cls = type(dupefilter)
    return any(
        isinstance(dupefilter, ours) and cls.request_seen is ours.request_seen
        for ours in (RFPDupeFilter, CompactDupeFilter)
    )


def load_fingerprints(crawler: Crawler, dupefilter: Any, size: int) -> Fingerprints:
    """Return the fingerprints by *dupefilter*'s method, or by the crawler's fingerprinter.

    :param size: how many URLs to remember with their fingerprints, if a fingerprint depends only on the
        URL.
    """
    make = getattr(dupefilter, "request_fingerprint", None)
    if make is None:
        return Fingerprints(lambda request: crawler.request_fingerprinter.fingerprint(request).hex(), 0)
    by_url = getattr(make, "__func__", None) is RFPDupeFilter.request_fingerprint and only_url_matters(
        dupefilter.fingerprinter
    )
    return Fingerprints(make, size if by_url else 0)


def fingerprints_by(dupefilter: Any, crawler: Crawler) -> str:
    """Return the path of the class or method that makes fingerprints, for :func:`made_with`."""
    cls = type(dupefilter)
    own = getattr(cls, "request_fingerprint", RFPDupeFilter.request_fingerprint)
    if own is RFPDupeFilter.request_fingerprint:
        return class_path(type(crawler.request_fingerprinter))
    return f"{class_path(cls)}.request_fingerprint"
