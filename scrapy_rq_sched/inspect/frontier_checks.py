"""What the doctor looks at in the frontier of a spider."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from .. import connection, serializers
from ..dupefilter import CompactDupeFilter
from ..engine.components import PICKLE, load_queue_class, project_of
from ..errors import FrontierError
from ..frontier.client import FORMAT
from ..keys.key import Use
from ..keys.table import KEYS
from ..serializers import faithful
from .finding import Finding, if_permitted, ok, problem, warning
from .rates import HOUR
from .read_status import read_status
from .server_checks import memory_left
from .settings_checks import is_project, loaded, with_addon
from .status import Status
from .view import View

#: Workers whose keys are looked at.
MOST_WORKERS = 100
#: Seconds within which the memory may be full, to be told of.
SOON = 24 * HOUR

_SEEDS = ("list", "set", "zset")


def check_frontier(view: View) -> Iterator[Finding]:
    """Yield what there is to be said of *view*'s frontier.

    :raises redis.exceptions.RedisError: if Redis does not answer.
    """
    what = f"spider {view.spider}"
    found = [*_types(view, what), *_conversion(view, what), *_made_with(view, what)]
    status = read_status(view)
    found += [*_told(view, status, what), *_workers(view, status, what), *_failed(view, status, what)]
    found += [*_growth(view, status, what), *_shares(status, what)]
    yield from found
    if not found:
        yield ok(
            what, f"{status.state}: {status.waiting} wait, {status.leased} in hand, {status.alive} workers"
        )


def _shares(status: Status, what: str) -> Iterator[Finding]:
    if status.unshared_share:
        yield problem(
            what,
            f"its workers do not share their work. Cannot be shared: {status.unshared_share}",
            "Have the spider put into its requests only what SCHEDULER_SERIALIZER keeps",
        )


def _types(view: View, what: str) -> Iterator[Finding]:
    expected = _expected_types(view)
    pipe = view.pipeline()
    for key in expected:
        pipe.type(key)
    for (key, types), kind in zip(expected.items(), pipe.execute(raise_on_error=False), strict=True):
        if isinstance(kind, connection.NoPermissionError):
            yield problem(
                what, f"this user may not use the key {key!r}", f"Allow it: '~{view.keys.prefix}:*'"
            )
        elif isinstance(kind, Exception):
            raise kind
        elif kind != b"none" and kind.decode() not in types:
            needed = " or a ".join(types)
            yield problem(
                what,
                f"the key {key!r} is a {kind.decode()}, where the frontier needs a {needed}",
                "Rename or delete it; what it should hold is lost",
            )


def _expected_types(view: View) -> dict[str, tuple[str, ...]]:
    keys = view.keys
    expected = {keys.at(key): key.types for key in KEYS if key.use in (Use.ARGUMENT, Use.DERIVED)}
    del expected[keys.requests]
    with suppress(FrontierError):  # a queue of the user's own has its own keys
        expected[keys.requests] = (view.named_queue_class.key_type,)
    expected |= dict.fromkeys(keys.start_urls, _SEEDS)
    workers = if_permitted(lambda: view.server.zrange(keys.workers, 0, MOST_WORKERS - 1)) or ()
    for name in (worker.decode("utf-8", "replace") for worker in workers):
        expected[keys.worker(name)] = expected[keys.leases(name)] = ("hash",)
    return expected


def _conversion(view: View, what: str) -> Iterator[Finding]:
    kind = if_permitted(lambda: view.server.hgetall(view.keys.converting))
    if kind and kind.get(b"from") == b"import":
        yield problem(
            what,
            "a frontier is being imported here, or that broke off: no worker may join",
            f"Wait for it, or remove what was imported: scrapy frontier clear {view.spider} --force",
        )
    elif kind:
        names = [kind[name].decode("utf-8", "replace") for name in (b"from", b"to") if name in kind]
        yield problem(
            what,
            f"its requests are being converted ({' to '.join(names)}), or that broke off: no worker may join",
            f"Wait for it, or run it to its end: scrapy frontier convert {view.spider}",
        )


def _made_with(view: View, what: str) -> Iterator[Finding]:
    if view.meta and view.meta.get("format", FORMAT) != FORMAT:
        yield problem(
            what,
            f"it is of format {view.meta['format']}, and this version of the package has {FORMAT}",
            "Crawl on with the version that it was made with, or start anew with SCHEDULER_FLUSH_ON_START",
        )
    try:
        ours = _ours(view)
    except FrontierError:
        return  # the check of the settings says it
    for name, value in ours.items():
        theirs = view.meta.get(name, value)
        if theirs != value and (name, theirs, value) != ("dupefilter", "exact", "compact"):
            yield problem(
                what,
                f"it was made with {name} {theirs!r}, and the settings have {value!r}: workers are refused",
                _remedy(view, name),
            )
    if _is_pickled(view):
        yield problem(
            what,
            f"{view.keys.requests!r} has pickled requests, as scrapy-redis writes them, which "
            "SCHEDULER_SERIALIZER cannot read",
            "Set SCHEDULER_SERIALIZER = 'scrapy_rq_sched.picklecompat', or convert them: scrapy frontier "
            f"convert {view.spider}",
        )


def _remedy(view: View, name: str) -> str:
    """Return what to do about a frontier that was made with another value of *name*."""
    if name == "FRONTIER_PROJECT":
        return (
            "Give this crawl keys of its own (FRONTIER_JOB, and %(job)s in the key settings) or another "
            "database of Redis; if both are to share one frontier, set FRONTIER_PROJECT alike in both"
        )
    convert = ""
    if name == "SCHEDULER_SERIALIZER":
        convert = f"convert the requests: scrapy frontier convert {view.spider}; "
    return f"Set it as it was; {convert}or start anew with SCHEDULER_FLUSH_ON_START"


def _ours(view: View) -> dict[str, str]:
    """Return what the settings would make the frontier with, as far as that is sure."""
    settings = with_addon(view.scrapy_settings)
    if view.spidercls is None or not is_project(settings):
        return {}
    queue_class = load_queue_class(view.settings)
    ours = {
        "FRONTIER_PROJECT": view.settings.project or project_of(settings, view.spidercls),
        "SCHEDULER_QUEUE_CLASS": _path(queue_class),
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
        ours["REQUEST_FINGERPRINTER_CLASS"] = _path(fingerprinter)
    return ours


def _path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _is_pickled(view: View) -> bool:
    serializer = serializers.load_serializer(view.settings.serializer)
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


def _told(view: View, status: Status, what: str) -> Iterator[Finding]:
    if status.state in ("paused", "draining"):
        since = (status.now - status.state_since) / 60
        said = f" for {since:,.0f} minutes" if status.state_since else ""
        yield warning(what, f"it is {status.state}{said}", f"scrapy frontier resume {view.spider}")
    stopping = sum(worker.alive and worker.told_to_stop for worker in status.workers)
    if stopping:
        yield warning(
            what,
            f"{stopping} of {status.alive} workers alive are told to stop",
            "To resume, start workers again",
        )


def _workers(view: View, status: Status, what: str) -> Iterator[Finding]:
    start = f"Start a worker: scrapy crawl {view.spider}"
    dead = [worker for worker in status.workers if not worker.alive and worker.in_hand]
    if dead and not status.alive:
        held = sum(worker.in_hand for worker in dead)
        yield warning(what, f"{len(dead)} dead workers hold {held} requests, and nobody is alive", start)
    elif not status.alive and (status.waiting or status.delayed or (status.seeds and view.exists)):
        count = status.waiting + status.delayed + status.seeds
        yield warning(what, f"{count} requests and seeds wait, and no worker is alive", start)
    versions = sorted({worker.version for worker in status.workers if worker.alive and worker.version})
    if len(versions) > 1:
        yield warning(
            what, f"workers alive have different versions: {', '.join(versions)}", "Update the older ones"
        )


def _failed(view: View, status: Status, what: str) -> Iterator[Finding]:
    if status.failed:
        most = view.settings.max_failed
        full = f", as many as FRONTIER_MAX_FAILED keeps ({most}): the oldest are dropped"
        full = full if status.failed >= most else ""
        yield warning(
            what,
            f"{status.failed} requests or seeds are in the failed list{full}",
            f"See why: scrapy frontier failed {view.spider} --counts",
        )


def _growth(view: View, status: Status, what: str) -> Iterator[Finding]:
    if not (status.growth and status.growth > 0 and status.waiting and status.waiting_bytes):
        return
    server = connection.server_of(view.server, view.keys.requests)
    left, most = memory_left(if_permitted(lambda: server.info("memory")) or {})
    a_second = status.growth * status.waiting_bytes / status.waiting
    if most and left < SOON * a_second:
        yield warning(
            what,
            f"what waits grows by {HOUR * a_second / 1e6:,.0f} MB an hour: Redis is full in "
            f"{left / a_second / HOUR:.1f} h",
            "Give Redis more memory, or bound what waits (FRONTIER_MAX_WAITING)",
        )
