"""The doctor's checks of a spider's frontier."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from .. import connection, serializers
from ..assembly.frontier import project_of
from ..assembly.queue import PICKLE, load_queue_class
from ..codec.values import class_path, text_of
from ..dupefilter import CompactDupeFilter
from ..errors import FrontierError, frontier_command
from ..frontier.messages import FORMAT
from ..frontier.refusals import how_to_convert
from ..keys.row import Use
from ..keys.table import KEYS
from ..serializers import faithful
from .finding import Finding, if_permitted, ok, problem, warning
from .history import with_last_crawl
from .pool_checks import check_pools
from .rates import HOUR
from .read_status import read_status
from .server_checks import memory_left
from .settings_checks import is_project, loaded, with_addon
from .status import Status
from .view import View
from .wording import counted, crawl_command

#: Maximum number of workers whose keys are checked.
MOST_WORKERS = 100
#: If the memory will be full within these seconds, the doctor warns.
SOON = 24 * HOUR

_SEEDS = ("list", "set", "zset")


def check_frontier(view: View) -> Iterator[Finding]:
    """Check *view*'s frontier.

    :raises redis.exceptions.RedisError: if Redis does not answer.
    """
    subject = f"spider {view.spider}"
    found = [*_types(view, subject), *_conversion(view, subject), *_made_with(view, subject)]
    status = with_last_crawl(view, read_status(view))
    found += [
        *_orders(view, status, subject),
        *_workers(view, status, subject),
        *_failed(view, status, subject),
        *check_pools(view, status, subject),
    ]
    found += [*_growth(view, status, subject), *_shares(status, subject)]
    yield from found
    if not found:
        yield ok(
            subject,
            f"{status.state}: {counted(status.waiting, 'waiting request')}, "
            f"{counted(status.leased, 'lease')}, {counted(status.alive, 'worker')}",
        )


def _shares(status: Status, subject: str) -> Iterator[Finding]:
    if status.cut:
        yield problem(
            subject,
            f"these keys are so large that they are read only in part: {status.cut}",
            "Find out which program writes there, and delete what it has written",
        )
    if status.unshared_share:
        yield problem(
            subject,
            f"its workers cannot share {status.unshared_share}",
            "Change the spider, so that its requests contain only values that SCHEDULER_SERIALIZER keeps",
        )


def _types(view: View, subject: str) -> Iterator[Finding]:
    expected = _expected_types(view)
    pipe = view.pipeline()
    for key in expected:
        pipe.type(key)
    for (key, types), kind in zip(expected.items(), pipe.execute(raise_on_error=False), strict=True):
        if isinstance(kind, connection.NoPermissionError):
            yield problem(
                subject,
                f"this user may not use the key {key!r}",
                f"Grant the user these keys: '~{view.keys.prefix}:*'",
            )
        elif isinstance(kind, Exception):
            raise kind
        elif kind != b"none" and kind.decode() not in types:
            needed = " or a ".join(types)
            yield problem(
                subject,
                f"the key {key!r} is a {kind.decode()}, where the frontier needs a {needed}",
                "Rename or delete the key. The frontier's data that it should hold are lost",
            )


def _expected_types(view: View) -> dict[str, tuple[str, ...]]:
    keys = view.keys
    expected = {key.of(keys): key.types for key in KEYS if key.use in (Use.ARGUMENT, Use.DERIVED)}
    del expected[keys.requests]
    with suppress(FrontierError):  # a custom queue class has its own keys
        expected[keys.requests] = (view.named_queue_class.key_type,)
    expected |= dict.fromkeys(keys.start_urls, _SEEDS)
    workers = if_permitted(lambda: view.server.zrange(keys.workers, 0, MOST_WORKERS - 1)) or ()
    for name in map(text_of, workers):
        expected[keys.worker(name)] = expected[keys.leases(name)] = ("hash",)
    return expected


def _conversion(view: View, subject: str) -> Iterator[Finding]:
    kind = if_permitted(lambda: view.server.hgetall(view.keys.converting))
    if kind and kind.get(b"from") == b"import":
        yield problem(
            subject,
            "a frontier is being imported, or an import was interrupted: no worker can join",
            "Wait until the import has ended. If it was interrupted, remove the imported part: "
            + frontier_command("clear", view.spider, "--force"),
        )
    elif kind:
        names = [text_of(kind[name]) for name in (b"from", b"to") if name in kind]
        yield problem(
            subject,
            f"its requests are being converted ({' to '.join(names)}), or a conversion was interrupted: no "
            "worker can join",
            "Wait until the conversion has ended. If it was interrupted, continue it. "
            + how_to_convert(view.spider, *names[:1]),
        )


def _made_with(view: View, subject: str) -> Iterator[Finding]:
    if view.meta and view.meta.get("format", FORMAT) != FORMAT:
        yield problem(
            subject,
            f"it has the format {view.meta['format']}, but this version of scrapy-rq-sched uses {FORMAT}",
            "Continue the crawl with the version that began it, or start a new crawl with "
            "SCHEDULER_FLUSH_ON_START",
        )
    try:
        ours = _ours(view)
    except FrontierError:
        return  # the check of the settings reports it
    for name, value in ours.items():
        theirs = view.meta.get(name, value)
        if theirs != value and (name, theirs, value) != ("dupefilter", "exact", "compact"):
            yield problem(
                subject,
                f"it was made with {name} {theirs!r}, but the settings have {value!r}: workers cannot join",
                _remedy(view, name, theirs),
            )
    if _is_pickled(view):
        yield problem(
            subject,
            f"{view.keys.requests!r} has pickled requests, as scrapy-redis writes them, which "
            "SCHEDULER_SERIALIZER cannot read",
            "Set SCHEDULER_SERIALIZER = 'scrapy_rq_sched.picklecompat', or convert the requests. "
            + how_to_convert(view.spider, "pickle"),
        )


def _remedy(view: View, name: str, theirs: str) -> str:
    """Return the advice for a frontier that was made with *theirs* as the value of *name*."""
    if name == "FRONTIER_PROJECT":
        return (
            "Give this crawl its own keys (FRONTIER_JOB, and %(job)s in the key settings) or another "
            "Redis database. For both projects to share one frontier, set the same FRONTIER_PROJECT in both"
        )
    convert = f". {how_to_convert(view.spider, theirs)}" if name == "SCHEDULER_SERIALIZER" else ""
    return f"Restore the earlier value, or start a new crawl with SCHEDULER_FLUSH_ON_START{convert}"


def _ours(view: View) -> dict[str, str]:
    """Return the values with which the settings would make the frontier, as far as they are certain."""
    settings = with_addon(view.scrapy_settings)
    if view.spidercls is None or not is_project(settings):
        return {}
    queue_class = load_queue_class(view.settings)
    ours = {
        "FRONTIER_PROJECT": view.settings.project or project_of(settings, view.spidercls),
        "SCHEDULER_QUEUE_CLASS": class_path(queue_class),
        "SCHEDULER_SERIALIZER": serializers.serializer_name(
            serializers.load_serializer(view.settings.serializer)
        ),
    }
    dupefilter = loaded(settings.get("DUPEFILTER_CLASS"))
    if isinstance(dupefilter, type):
        ours["dupefilter"] = "compact" if issubclass(dupefilter, CompactDupeFilter) else "exact"
    fingerprinter = loaded(settings.get("REQUEST_FINGERPRINTER_CLASS"))
    if isinstance(fingerprinter, type) and "request_fingerprint" not in view.meta.get(
        "REQUEST_FINGERPRINTER_CLASS", ""
    ):
        ours["REQUEST_FINGERPRINTER_CLASS"] = class_path(fingerprinter)
    return ours


def _is_pickled(view: View) -> bool:
    serializer = serializers.load_serializer(view.settings.serializer)
    if serializers.serializer_name(serializer) not in serializers.HARMLESS:
        return False  # it may read pickles, and this check must not run them
    key = view.keys.requests
    try:
        is_sorted = view.is_sorted
    except FrontierError:
        return False  # of another type, or the user's own
    if is_sorted:
        first: Any = next(iter(if_permitted(lambda: view.server.zrange(key, 0, 0)) or ()), None)
    else:
        first = if_permitted(lambda: view.server.lindex(key, -1))
    if not first or not first.startswith(PICKLE):
        return False
    try:
        faithful.load(serializer, first)
    except FrontierError:
        return True
    return False


def _orders(view: View, status: Status, subject: str) -> Iterator[Finding]:
    if status.state in ("paused", "draining"):
        minutes = round((status.now - status.state_since) / 60)
        period = f" for {counted(minutes, 'minute')}" if status.state_since and minutes else ""
        yield warning(
            subject,
            f"the crawl has been {status.state}{period}" if period else f"the crawl is {status.state}",
            f"To resume it: {frontier_command('resume', view.spider)}",
        )
    stopping = sum(worker.alive and worker.told_to_stop for worker in status.workers)
    if stopping:
        yield warning(
            subject,
            f"{stopping} of {status.alive} live workers {'was' if stopping == 1 else 'were'} told to stop",
            f"To resume the crawl, start workers again: {crawl_command(view.spider)}",
        )


def _workers(view: View, status: Status, subject: str) -> Iterator[Finding]:
    start = f"Start a worker: {crawl_command(view.spider)}"
    dead = [worker for worker in status.workers if not worker.alive and worker.in_hand]
    if dead and not status.alive:
        held = sum(worker.in_hand for worker in dead)
        hold = "hold" if len(dead) > 1 else "holds"
        yield warning(
            subject,
            f"{counted(len(dead), 'dead worker')} {hold} {counted(held, 'request')}, and no worker is alive",
            start,
        )
    elif not status.alive and (status.left - status.seeds or (status.seeds and view.exists)):
        text = f"no worker is alive, and waiting requests and seeds: {status.left:,}"
        yield warning(subject, text, start)
    versions = sorted({worker.version for worker in status.workers if worker.alive and worker.version})
    if len(versions) > 1:
        yield warning(
            subject,
            f"live workers have different versions of scrapy-rq-sched: {', '.join(versions)}",
            "Update the older ones",
        )


def _failed(view: View, status: Status, subject: str) -> Iterator[Finding]:
    if status.failed:
        most = view.settings.max_failed
        full = f", the maximum (FRONTIER_MAX_FAILED is {most}): the oldest are dropped"
        full = full if status.failed >= most else ""
        entries = f"{status.failed:,} {'entry' if status.failed == 1 else 'entries'}"
        yield warning(
            subject,
            f"the failed list has {entries}{full}",
            f"To see the reasons: {frontier_command('failed', view.spider, '--counts')}",
        )


def _growth(view: View, status: Status, subject: str) -> Iterator[Finding]:
    if not (status.growth and status.growth > 0 and status.waiting and status.waiting_bytes):
        return
    server = connection.server_of(view.server, view.keys.requests)
    left, most = memory_left(if_permitted(lambda: server.info("memory")) or {})
    a_second = status.growth * status.waiting_bytes / status.waiting
    if most and left < SOON * a_second:
        yield warning(
            subject,
            f"the queue grows by {HOUR * a_second / 1e6:,.0f} MB an hour: Redis will be full in "
            f"{left / a_second / HOUR:.1f} h",
            "Give Redis more memory, or limit the queue (FRONTIER_MAX_WAITING)",
        )
