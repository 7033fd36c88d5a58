"""Memory in Redis: bytes a URL seen, and bytes a waiting request."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from scrapy_rq_sched.keys import Keys

from .arena import OURS, PEER, Arena
from .figures import Figures, Options
from .filling import fill, fingerprint, mark

#: How many URLs are seen: as far as the exact filter goes, and as far as the compact one does.
SEEN = (10_000, 100_000, 1_000_000, 10_000_000)
_EXACT_UP_TO = 1_000_000
#: What servers keep as a sorted array of integers: by default, and where somebody has set less.
_INTSETS = "set-max-intset-entries"
_DEFAULT, _LOWER = 512, 128
COMPACT = f"{OURS}, CompactDupeFilter"
QUEUES = ("PriorityQueue", "FifoQueue", "LifoQueue")
SERIALIZERS = ("json", "json+deflate", "msgpack", "pickle")


def run(arena: Arena, options: Options) -> Figures:
    """Fill filters and queues, and look at the memory that Redis uses."""
    figures = Figures()
    levels = (1000, 10_000) if options.quick else SEEN
    for level in options.each(levels, "memory, seen"):
        if level <= _EXACT_UP_TO:
            _seen(
                arena,
                level,
                f"{OURS}, RFPDupeFilter",
                partial(mark, arena.redis, Keys("seen"), "exact"),
                figures,
            )
            _seen(arena, level, PEER, partial(_mark_as_scrapy_redis, arena), figures)
        _seen(arena, level, COMPACT, partial(mark, arena.redis, Keys("seen"), "compact"), figures)
    arena.redis.config_set(_INTSETS, _LOWER)
    name = f"{COMPACT}, {_INTSETS} {_LOWER}"
    _seen(arena, levels[1], name, partial(mark, arena.redis, Keys("seen"), "compact"), figures)
    arena.redis.config_set(_INTSETS, _DEFAULT)

    count = options.size(quick=500, full=20_000)
    for kind in options.each(QUEUES, "memory, waiting"):
        _waiting(arena, PEER, kind, None, count, figures)
        for serializer in SERIALIZERS:
            _waiting(arena, OURS, kind, serializer, count, figures)
    arena.redis.flushall()
    return figures


def _used(arena: Arena) -> int:
    return int(arena.redis.info("memory")["used_memory"])


def _seen(arena: Arena, count: int, name: str, mark: Callable[[int], object], figures: Figures) -> None:
    arena.redis.flushall()
    mark(10)  # so that its scripts and connections are there already
    arena.redis.flushdb()
    before = _used(arena)
    mark(count)
    figures.add(f"{name}, {count:,} URLs", bytes_a_url=(_used(arena) - before) / count)


def _mark_as_scrapy_redis(arena: Arena, count: int) -> None:
    """Mark URLs with its one command, ``SADD``, many at a time."""
    for first in range(0, count, 1000):
        arena.redis.sadd("seen:dupefilter", *map(fingerprint, range(first, min(first + 1000, count))))


def _waiting(
    arena: Arena, name: str, kind: str, serializer: str | None, count: int, figures: Figures
) -> None:
    arena.redis.flushall()
    before = _used(arena)
    fill(name, arena.redis, count, kind, serializer)
    label = f"{name}, {kind}, {serializer}" if serializer else f"{name}, {kind}"
    figures.add(label, bytes_a_request=(_used(arena) - before) / count)
