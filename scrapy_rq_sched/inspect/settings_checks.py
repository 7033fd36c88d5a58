"""The doctor's checks of a project's settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scrapy.utils.misc import load_object

from .. import connection, feeds, serializers
from ..addon import Addon
from ..assembly.queue import load_queue_class
from ..codec.pools import entries
from ..dupefilter import CompactDupeFilter, RFPDupeFilter
from ..engine.remarks import remarks
from ..errors import SettingError
from ..failures import check_middleware
from ..frontier.refusals import how_to_convert
from ..pipelines import RedisPipeline
from ..queue import CLASS_NAMES, DISCIPLINES
from ..scheduler import Scheduler
from ..servers.addresses import show_feed
from ..settings import FrontierSettings
from .finding import Finding, ok, problem, warning

#: A lease of fewer seconds is short: a pause of the interpreter, or of the network, may last as long.
SHORT_LEASE = 5.0

_SUBJECT = "settings"


def with_addon(settings: Any, spidercls: Any = None) -> Any:
    """Return *settings* as in a crawl: with those of *spidercls*, and of our add-on if it is enabled."""
    settings = settings.copy()
    if spidercls is not None:
        spidercls.update_settings(settings)
    for entry, order in settings.getdict("ADDONS").items():
        cls = loaded(entry)
        if order is not None and isinstance(cls, type) and issubclass(cls, Addon):
            cls().update_settings(settings)
    return settings


def loaded(value: Any) -> Any:
    """Return the object that the path *value* names; None if it cannot be loaded."""
    try:
        return load_object(value)
    except Exception:  # importing a module runs its code, which may raise anything
        return None


def is_project(settings: Any) -> bool:
    """Return whether a project, or the command line, has settings of a crawl."""
    return bool(settings.getlist("SPIDER_MODULES") or settings.getpriority("SCHEDULER"))


def check_settings(settings: Any) -> Iterator[Finding]:
    """Check Scrapy's *settings*, as a crawl has them."""
    try:
        read = FrontierSettings.from_settings(settings)
        serializers.load_serializer(read.serializer)
        found = [*_scheduler(settings, read), *_contradictions(settings, read)]
    except SettingError as error:
        yield problem(_SUBJECT, str(error), "Correct it: no crawl can start with it")
        return
    found += _pools(read)
    yield from found
    if not found:
        yield ok(_SUBJECT, "all settings are valid and consistent")
    if is_project(settings):
        yield from _items(settings, read)


def _pools(read: FrontierSettings) -> Iterator[Finding]:
    """Check the items of pools that are in the settings and in files."""
    for pool in read.pools:
        try:
            list(entries(pool, ()))
        except SettingError as error:
            yield problem(_SUBJECT, str(error), "Correct it: no worker can start with it")


def _scheduler(settings: Any, read: FrontierSettings) -> Iterator[Finding]:
    queue_class = load_queue_class(read)
    if not issubclass(queue_class, DISCIPLINES):
        yield warning(
            _SUBJECT,
            f"SCHEDULER_QUEUE_CLASS is {queue_class.__name__}, which pushes and pops by itself: requests are "
            "not leased, so a killed worker loses the requests that it had popped",
            f"Set it to one of {CLASS_NAMES} of scrapy_rq_sched",
        )
        if read.max_waiting and read.max_waiting_policy == "drop-lowest":
            yield problem(
                _SUBJECT,
                f"FRONTIER_MAX_WAITING_POLICY is 'drop-lowest', which {queue_class.__name__} cannot do",
                "Set it to 'slow'",
            )
    elif read.order == "priority" and not queue_class.has_priorities:
        yield problem(
            _SUBJECT,
            f"FRONTIER_ORDER is 'priority', but {queue_class.__name__} has no priorities",
            "Set SCHEDULER_QUEUE_CLASS to scrapy_rq_sched.PriorityQueue, or FRONTIER_ORDER to 'slots'",
        )
    if not is_project(settings):
        yield ok(
            _SUBJECT, "there is no Scrapy project here: only the settings of the command line were checked"
        )
        return
    scheduler = loaded(settings.get("SCHEDULER"))
    # Not issubclass(): to Scrapy's metaclass, all classes with a scheduler's methods are subclasses of it.
    if Scheduler not in getattr(scheduler, "__mro__", ()):
        yield problem(
            _SUBJECT,
            f"SCHEDULER is {settings.get('SCHEDULER')!r}: crawls do not use the frontier",
            'Set ADDONS = {"scrapy_rq_sched.Addon": 500}, or SCHEDULER = "scrapy_rq_sched.Scheduler"',
        )
    dupefilter = loaded(settings.get("DUPEFILTER_CLASS"))
    if settings.getpriority("DUPEFILTER_CLASS") and not _is_ours(dupefilter):
        yield warning(
            _SUBJECT,
            f"DUPEFILTER_CLASS is {settings.get('DUPEFILTER_CLASS')!r}, which workers do not share: each "
            "filters only its own requests, in a step apart from queueing",
            "Leave DUPEFILTER_CLASS out, or set it to scrapy_rq_sched.RFPDupeFilter or CompactDupeFilter",
        )


def _is_ours(dupefilter: Any) -> bool:
    return isinstance(dupefilter, type) and any(
        issubclass(dupefilter, ours) and dupefilter.request_seen is ours.request_seen
        for ours in (RFPDupeFilter, CompactDupeFilter)
    )


def _items(settings: Any, read: FrontierSettings) -> Iterator[Finding]:
    """Yield how items are stored, and the way that stores each of them once."""
    if read.items:
        yield ok("items", f"each is stored once, whatever dies (FRONTIER_ITEMS = {read.items!r})")
        return
    pipelines = settings.getwithbase("ITEM_PIPELINES").items()
    used = [loaded(entry) for entry, order in pipelines if order is not None]
    if any(isinstance(one, type) and issubclass(one, RedisPipeline) for one in used):
        yield Finding(
            "ok",
            "items",
            "RedisPipeline loses none, but stores those of a page twice that is crawled again, because its "
            "worker died",
            "To store each once, in the same list, set FRONTIER_ITEMS = 'list'",
        )
    for uri in map(str, settings.getdict("FEEDS")):
        keeps = "%(worker)" in uri and feeds.is_local(uri)
        yield Finding(
            "ok",
            "items",
            f"feed {show_feed(uri)!r}: "
            + (
                "it loses none, but has those of a page twice that is crawled again, because its worker died"
                if keeps
                else "a worker that is killed loses those that are not stored yet"
            ),
            "For a local file with each once, use scrapy frontier crawl SPIDER; with workers on many "
            "machines, set FRONTIER_ITEMS = 'stream', and use scrapy frontier items SPIDER -o FILE --follow",
        )


def _contradictions(settings: Any, read: FrontierSettings) -> Iterator[Finding]:
    if "download" in read.set_aside:
        try:
            check_middleware(settings)
        except SettingError as error:
            yield problem(_SUBJECT, str(error), "Use the add-on, or add this middleware")
    for applies, text, advice in (
        *_of_frontier(settings, read),
        *_of_slots(settings, read),
        *_of_redis(settings, read),
    ):
        if applies:
            yield warning(_SUBJECT, text, advice)
    for text, advice in (*remarks(settings), *feeds.remarks(settings)):
        yield warning(_SUBJECT, text, advice)


def _of_frontier(settings: Any, read: FrontierSettings) -> Iterator[tuple[bool, str, str]]:
    holdable = max(read.concurrency, read.prefetch)
    templates = (read.queue_key, read.dupefilter_key, *read.start_urls_keys, read.items_key, read.stats_key)
    yield (
        read.flush_on_start and read.persist,
        "SCHEDULER_FLUSH_ON_START clears at the start the frontier that SCHEDULER_PERSIST keeps at the end",
        "Leave one of them out. To clear only once: -s SCHEDULER_FLUSH_ON_START=1",
    )
    yield (
        read.prefetch < read.concurrency,
        f"FRONTIER_PREFETCH ({read.prefetch}) is less than CONCURRENT_REQUESTS ({read.concurrency}): a "
        "worker never has enough requests ready",
        "Set FRONTIER_PREFETCH to at least CONCURRENT_REQUESTS",
    )
    yield (
        0 < read.max_waiting < holdable,
        f"FRONTIER_MAX_WAITING ({read.max_waiting}) is less than one worker may hold ({holdable}, the "
        "greater of FRONTIER_PREFETCH and CONCURRENT_REQUESTS)",
        f"Set it to several times {holdable} for each worker",
    )
    yield (
        bool(settings.get("FRONTIER_MAX_WAITING_POLICY")) and not read.max_waiting,
        "FRONTIER_MAX_WAITING_POLICY has no effect: FRONTIER_MAX_WAITING is 0, so the queue has no limit",
        "Set FRONTIER_MAX_WAITING, or leave FRONTIER_MAX_WAITING_POLICY out",
    )
    yield (
        bool(settings.get("FRONTIER_MAX_WORKERS_POLICY") or read.places_key) and not read.max_workers,
        "FRONTIER_MAX_WORKERS_POLICY and FRONTIER_MAX_WORKERS_KEY have no effect: FRONTIER_MAX_WORKERS is 0, "
        "so any number of workers may join",
        "Set FRONTIER_MAX_WORKERS, or leave the others out",
    )
    yield (
        read.lease_timeout < SHORT_LEASE,
        f"FRONTIER_LEASE_TIMEOUT is {read.lease_timeout:g} s: a worker that stalls for that long counts "
        "as dead, and its pages are crawled twice",
        f"Set it to {SHORT_LEASE:g} or more",
    )
    yield (
        "%(spider)s" not in read.queue_key and "%(name)s" not in read.queue_key,
        f"SCHEDULER_QUEUE_KEY is {read.queue_key!r}: all spiders would share one queue",
        "Add %(spider)s to it",
    )
    yield (
        bool(settings.get("FRONTIER_JOB")) and not any("%(job)s" in template for template in templates),
        "FRONTIER_JOB has no effect: no key template contains %(job)s",
        "Add %(job)s to the key templates, or leave FRONTIER_JOB out",
    )
    yield (
        serializers.serializer_name(serializers.load_serializer(read.serializer)) == "pickle",
        "SCHEDULER_SERIALIZER is pickle: anybody with write access to this Redis can run code in the workers",
        f"Set it to 'json', and convert the waiting requests. {how_to_convert('SPIDER', 'pickle')}",
    )


def _of_slots(settings: Any, read: FrontierSettings) -> Iterator[tuple[bool, str, str]]:
    fleet_keeps_delay = read.by_slot and "delay" in read.fleet_limits
    yield (
        bool(read.slots) and not read.by_slot,
        "FRONTIER_SLOTS has no effect: FRONTIER_BY_SLOT is False, so requests do not wait by slot",
        "Leave out FRONTIER_BY_SLOT, or FRONTIER_SLOTS",
    )
    yield (
        fleet_keeps_delay
        and settings.getbool("AUTOTHROTTLE_ENABLED")
        and "autothrottle" not in read.fleet_limits,
        "with AUTOTHROTTLE_ENABLED each worker keeps its own delays: eight workers send a host eight times "
        "as many requests as one",
        "Add 'autothrottle' to FRONTIER_FLEET_LIMITS, or divide AUTOTHROTTLE_TARGET_CONCURRENCY by the "
        "number of workers",
    )
    yield (
        bool(settings.getint("CONCURRENT_REQUESTS_PER_IP")),
        "with CONCURRENT_REQUESTS_PER_IP Scrapy's slots are IP addresses, but the frontier's slots are hosts",
        "Leave it out: it is deprecated in Scrapy",
    )


def _of_redis(settings: Any, read: FrontierSettings) -> Iterator[tuple[bool, str, str]]:
    client = connection.get_client(settings)
    timeout = connection.socket_timeout(client)
    connection.close(client)
    yield (
        timeout is None,
        "REDIS_PARAMS has the socket_timeout None: a worker waits forever for a Redis that hangs",
        "Leave it out: the default is 5 s",
    )
    yield (
        timeout is not None and SHORT_LEASE <= read.lease_timeout <= timeout,
        f"FRONTIER_LEASE_TIMEOUT ({read.lease_timeout:g} s) is not longer than the socket_timeout of "
        f"REDIS_PARAMS ({timeout} s): a worker counts as dead before it notices that Redis hangs",
        "Set FRONTIER_LEASE_TIMEOUT to several times the socket_timeout",
    )
    yield (
        "decode_responses" in settings.getdict("REDIS_PARAMS"),
        "REDIS_PARAMS has decode_responses, which has no effect on the scheduler",
        "Leave it out. For your own code, set REDIS_DECODE_RESPONSES",
    )
    unused = [name for name in ("REDIS_HOST", "REDIS_PORT") if settings.get(name)]
    yield (
        bool(settings.get("REDIS_URL") and unused),
        f"REDIS_URL is set, so {' and '.join(unused)} {'has' if len(unused) == 1 else 'have'} no effect",
        f"Leave out REDIS_URL, or {' and '.join(unused)}",
    )
