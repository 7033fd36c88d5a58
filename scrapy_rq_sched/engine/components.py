"""The queue, the dupefilter and the fingerprinter that the settings name."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from typing import Any

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.utils.misc import build_from_crawler, load_object

from .. import connection
from ..codec.templates import templates_of_seeds
from ..codec.values import class_path
from ..dupefilter import CompactDupeFilter, RFPDupeFilter
from ..errors import FrontierMismatchError, SettingError
from ..fingerprints import Fingerprints, ScrapyRedisFingerprinter, only_url_matters
from ..frontier.client import Frontier
from ..frontier.close_limits import CloseLimits
from ..frontier.custom_queue import CustomQueueFrontier
from ..frontier.messages import Bounds
from ..frontier.refusals import how_to_convert
from ..keys import Keys, dupefilter_frontiers
from ..queue import DISCIPLINES
from ..serializers import load_serializer, serializer_name
from ..settings import FrontierSettings

#: The first byte of a pickle.
PICKLE = b"\x80"
_QUEUE_METHODS = ("push", "pop", "__len__", "clear")


def load_keys(settings: FrontierSettings, server: Any, spider: str, redis_key: Any = None) -> Keys:
    """Return the keys of the frontier of the spider called *spider*.

    :param redis_key: the spider's ``redis_key``: one or several templates for the keys of its seeds.
    :raises SettingError: if *redis_key* is not a valid key, or if the keys are on several slots of a Cluster.
    """
    seeds = settings.start_urls_keys
    if redis_key is not None:
        seeds = templates_of_seeds("redis_key", redis_key, settings.job)
    hash_tag = connection.needs_hash_tag(server)
    keys = Keys(
        spider,
        settings.queue_key,
        settings.dupefilter_key,
        seeds,
        settings.job,
        hash_tag,
        slots_template=settings.slots_key,
        places_template=settings.places_key,
    )
    _check_slots(keys, server)
    return keys


def _check_slots(keys: Keys, server: Any) -> None:
    slots: dict[int, str] = {}
    for key in keys.all():
        slots.setdefault(connection.slot(server, key), key)
    if len(slots) > 1:
        one, other, *_ = slots.values()
        raise SettingError(
            f"The keys {one!r} and {other!r} are on different slots of the Redis Cluster, but all keys of a "
            "frontier must be on one slot. Give the templates of all keys (SCHEDULER_QUEUE_KEY, "
            "SCHEDULER_DUPEFILTER_KEY, REDIS_START_URLS_KEY, FRONTIER_SLOTS_KEY, FRONTIER_MAX_WORKERS_KEY) "
            "the same part in braces, such as {%(spider)s}"
        )


def make_scheduler(cls: Any, crawler: Crawler, server: Any, settings: FrontierSettings) -> Any:
    """Return a scheduler of *cls*, the class that ``SCHEDULER`` names.

    :raises SettingError: if the class cannot be instantiated.
    """
    try:
        return cls(crawler, server, settings)
    except TypeError as error:
        raise SettingError(
            f"{class_path(cls)} cannot be instantiated: {error}. The constructor of a scheduler must accept "
            "crawler, server, settings and refusal, as that of scrapy_rq_sched.Scheduler does. What "
            "scrapy-redis's constructor accepts are attributes here, to be set before open()"
        ) from error


def not_opened(scheduler: Any) -> SettingError:
    """Return the error of a scheduler whose ``open`` has been overridden without a call of the original."""
    cls = next(cls for cls in type(scheduler).__mro__ if "open" in vars(cls))
    return SettingError(
        f"{class_path(cls)}.open() does not call super().open(spider), so this worker has not joined the "
        "frontier. Call it there, or set SCHEDULER to 'scrapy_rq_sched.Scheduler'"
    )


def load_queue(settings: FrontierSettings, server: Any, spider: Spider, keys: Keys) -> Any:
    """Return a queue of the class that ``SCHEDULER_QUEUE_CLASS`` names.

    :raises SettingError: if the setting does not name a queue class, or if the class cannot be instantiated.
    """
    cls = load_queue_class(settings)
    serializer = load_serializer(settings.serializer)
    try:
        # By name, as in scrapy-redis: the constructor of a user's class may have another order.
        return cls(server=server, spider=spider, key=keys.requests.replace("%", "%%"), serializer=serializer)
    except TypeError as error:
        raise SettingError(
            f"SCHEDULER_QUEUE_CLASS is {settings.queue_class!r}, which cannot be instantiated: {error}. Its "
            "constructor must accept server, spider, key and serializer, and the class must have push, pop "
            "and __len__"
        ) from error


def load_queue_class(settings: FrontierSettings) -> Any:
    """Return the class that ``SCHEDULER_QUEUE_CLASS`` names.

    :raises SettingError: if the setting does not name a queue class.
    """
    value = settings.queue_class
    try:
        cls = load_object(value)
    except (ImportError, NameError, ValueError, TypeError) as error:
        raise SettingError(f"SCHEDULER_QUEUE_CLASS is {value!r}, which cannot be loaded: {error}") from None
    if not (isinstance(cls, type) and all(hasattr(cls, name) for name in _QUEUE_METHODS)):
        raise SettingError(
            "SCHEDULER_QUEUE_CLASS must be scrapy_rq_sched.PriorityQueue, FifoQueue, LifoQueue, or a class "
            f"with {', '.join(_QUEUE_METHODS)}, not {value!r}"
        )
    return cls


def is_custom(queue: Any) -> bool:
    """Return whether *queue* has its own ``push`` or ``pop``, which the exchange cannot replace."""
    cls = type(queue)
    return not any(
        isinstance(queue, ours) and (cls.push, cls.pop) == (ours.push, ours.pop) for ours in DISCIPLINES
    )


def check_readable(queue: Any) -> None:
    """Check that *queue* contains no requests of scrapy-redis that its serializer cannot read.

    :raises FrontierMismatchError: if it does.
    """
    if is_custom(queue):
        return
    try:
        entry = queue.peek()
    except connection.ResponseError:
        return  # a key of a wrong type: joining reports it
    if entry is None or not entry.startswith(PICKLE):
        return
    try:
        queue.serializer.loads(entry)
    except Exception as error:  # a user's serializer may raise any exception
        raise FrontierMismatchError(
            f"{queue.key!r} contains pickled requests, as scrapy-redis writes them, but SCHEDULER_SERIALIZER "
            f"is {serializer_name(queue.serializer)!r}. To crawl them as they are, set SCHEDULER_SERIALIZER "
            f"= 'scrapy_rq_sched.picklecompat'. {how_to_convert(queue.spider.name, 'pickle')}"
        ) from error


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


def make_frontier(
    queue: Any, dupefilter: Any, server: Any, keys: Keys, worker: str, settings: FrontierSettings
) -> Frontier:
    """Return the frontier with the waiting requests of *queue* and the fingerprints of *dupefilter*."""
    kind = dupefilter.kind if filters_in_exchange(dupefilter) else "custom"
    same = {one.name: getattr(settings, one.name) for one in fields(Bounds) if hasattr(settings, one.name)}
    others = {"policy": settings.max_waiting_policy, "close": CloseLimits.of(settings)}
    bounds = Bounds(**same | others | ({} if settings.by_slot else {"order": "slots"}))
    if not is_custom(queue):
        if settings.order == "priority" and queue.discipline != "priority":
            raise SettingError(
                f"FRONTIER_ORDER is 'priority', but SCHEDULER_QUEUE_CLASS is {type(queue).__name__}, which "
                "ignores priorities. Set SCHEDULER_QUEUE_CLASS to scrapy_rq_sched.PriorityQueue, or "
                "FRONTIER_ORDER to 'slots'"
            )
        return Frontier(server, keys, worker, queue.discipline, bounds, kind)
    if settings.max_waiting and settings.max_waiting_policy == "drop-lowest":
        raise SettingError(
            "FRONTIER_MAX_WAITING_POLICY is 'drop-lowest', which is not possible with SCHEDULER_QUEUE_CLASS "
            f"{type(queue).__name__}: it has its own push or pop. Set FRONTIER_MAX_WAITING_POLICY to 'slow'"
        )
    return CustomQueueFrontier(queue, server, keys, worker, bounds, kind)


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
    _check_slots(keys, server)
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


def made_with(queue: Any, dupefilter: Any, crawler: Crawler, project: str = "") -> dict[str, str]:
    """Return the properties that all workers of a frontier must have in common.

    :param project: ``FRONTIER_PROJECT``: replaces the names of the bot and the spider's class, if these may
        differ.
    """
    return {
        "FRONTIER_PROJECT": project or project_of(crawler.settings, crawler.spidercls),
        "SCHEDULER_QUEUE_CLASS": class_path(type(queue)),
        "SCHEDULER_SERIALIZER": serializer_name(getattr(queue, "serializer", None)),
        "REQUEST_FINGERPRINTER_CLASS": fingerprints_by(dupefilter, crawler),
    }


def project_of(settings: Any, spidercls: type) -> str:
    """Return the default of ``FRONTIER_PROJECT``: the name of the bot and the class of the spider."""
    return f"{settings.get('BOT_NAME')}/{class_path(spidercls)}"


def fingerprints_by(dupefilter: Any, crawler: Crawler) -> str:
    """Return the path of the class or method that makes fingerprints, for :func:`made_with`."""
    cls = type(dupefilter)
    own = getattr(cls, "request_fingerprint", RFPDupeFilter.request_fingerprint)
    if own is RFPDupeFilter.request_fingerprint:
        return class_path(type(crawler.request_fingerprinter))
    return f"{class_path(cls)}.request_fingerprint"
