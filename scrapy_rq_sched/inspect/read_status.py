"""Read the status of a crawl, in two round trips; in some more if it uses pools."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import unquote

from ..codec.names import names_in
from ..codec.needs import split_place
from ..codec.values import text_of, whole_of
from ..errors import one_line
from ..frontier.entries import Part
from ..frontier.exchange_times import histogram
from ..frontier.messages import BOTTLENECKS
from ..keys import never
from . import questions
from .crawl import totals_of
from .crawls import counts_of
from .limit import limit_of
from .pools import Pools
from .questions import asked, command, count, part
from .rates import Rates, moments
from .status import PoolCounts, Status, UnmetNeeds, Worker
from .time_left import with_time_left
from .view import LONGEST_FIELD, MOST_FIELDS, View, fields
from .wanted import workers_wanted

#: Number of members from which Redis estimates the size of a key; and number of slots that are sampled.
SAMPLES = SLOTS = 5
#: Counts of pages that are read: as many as ``exchange/reply.lua`` keeps, of ten seconds each.
HISTORY = 361
#: Workers, also in line; and reasons and durations, that are read. Another program may have written millions.
MOST_WORKERS, MOST_COUNTS = 1000, 1000
#: Fields of the record of the crawl that are read.
MOST_RECORDS = 4000
#: Items of pools, and their uses, that are read.
MOST_ITEMS = 5000
#: Seconds after which a worker that lacks an item for its life has asked for one again.
ASKS_WITHIN = 15.0
#: Bytes that are read of a worker's description of itself, at most.
LONGEST_ABOUT = 4096

#: The fields of META with the settings that a frontier was made with.
_MADE_WITH = (
    "format",
    "dupefilter",
    "SCHEDULER_QUEUE_CLASS",
    "SCHEDULER_SERIALIZER",
    "REQUEST_FINGERPRINTER_CLASS",
)
#: The fields that are read of each worker.
_OF_WORKER = "about pages busy joined heard limit offers stop"
#: The values of some fields of several keys.
_Fields = dict[str, list[bytes | None]]
_LENGTHS = {b"list": "llen", b"zset": "zcard", b"set": "scard"}


class _State(NamedTuple):
    """The answers of the first round trip.

    :ivar time: the server's time; None without the right to ask for it.
    :ivar buckets: ``name``, ``first`` and ``count`` of a compact filter, and
    :ivar converting: ``from`` of a conversion, each by its only key.
    :ivar types: the types of the keys of requests and seeds.
    """

    time: tuple[int, int] | None
    meta: Part
    workers: Part
    delayed: int
    following: int
    group_news: int
    emptied: int
    pools: int
    failed: int
    seen: int
    buckets: _Fields
    finished: Part
    reasons: Part
    times: Part
    converting: _Fields
    caps: _Fields
    pages: Part
    counted: Part
    slots: int
    first_slots: Part
    places: Part
    line: Part
    types: dict[str, bytes | None]


class _Sizes(NamedTuple):
    """The answers of the second round trip.

    :ivar lengths: numbers of entries, and :ivar memory: sizes in bytes, by key.
    :ivar slots: ``tat`` and ``blocked`` of each of the first slots.
    :ivar about: the fields :data:`_OF_WORKER` of each worker.
    :ivar held: the number of leases, by worker.
    """

    lengths: dict[str, int]
    memory: dict[str, int]
    slots: _Fields
    about: _Fields
    held: dict[str, int]


def read_status(view: View) -> Status:
    """Return the status of *view*'s frontier, in two round trips; in some more if it uses pools.

    :raises redis.exceptions.RedisError: if Redis does not answer.
    """
    answers = _ask(view)
    # Without the right to TIME, use this machine's clock.
    now = answers.time[0] + answers.time[1] / 1e6 if answers.time else time.time()
    meta = fields(answers.meta)
    slots = dict(_scores(answers.first_slots))
    deadlines, in_line = _scores(answers.workers), [name for name, _ in _scores(answers.line)]
    compact = _Buckets(view, answers.buckets[view.keys.seen_state])
    sizes = _ask_sizes(view, answers, compact, list(slots), [name for name, _ in deadlines], in_line)

    waiting = _Waiting(view, answers, sizes, meta)
    next_turn_in = 0.0
    if slots and not waiting.flat:
        ahead = whole_of(meta.get("clock_ahead", "").partition(".")[0]) / 1000
        first = min(_next_turn(score, sizes.slots[slot]) for slot, score in slots.items())
        next_turn_in = max(0.0, first - ahead - now)
    seeds = sum(sizes.lengths[key] for key in view.keys.start_urls)
    seen_bytes = sizes.memory[view.keys.dupefilter] + compact.bytes(sizes)
    seen = answers.seen + compact.count
    about = [
        _worker(name, deadline / 1000 > now, sizes.about[name], sizes.held[name], meta)
        for name, deadline in deadlines
    ]
    pools = _Pools(view, answers)
    lacks_item = _lacking(meta, now) - pools.own.keys()
    about = [
        replace(
            worker,
            items=pools.own.get(worker.name, {}),
            lacks_item=worker.alive and worker.name in lacks_item,
        )
        for worker in about
    ]
    line = [
        replace(_worker(name, True, sizes.about[name], 0, meta), place=place)
        for place, name in enumerate(in_line, 1)
        # A worker in line without data here belongs to another spider that shares the places.
        if name not in sizes.held and any(sizes.about[name])
    ]
    history = moments([piece.data for piece in answers.pages.pieces])
    finished = next((piece.data for piece in answers.finished.pieces), b"")
    leased = sum(worker.in_hand for worker in about)
    signals = answers.group_news + answers.emptied
    left = waiting.count + leased + answers.delayed + answers.following + seeds + signals
    # Pages before the first live worker joined do not tell how fast the live ones are.
    since = min((worker.joined for worker in about if worker.alive), default=None)
    state = _state(
        meta, about, waiting.count, left, bool(finished), answers.converting[view.keys.converting][0]
    )
    if since is not None:
        since = max(since, whole_of(meta.get("resumed")) / 1000)
    rates = Rates(history, now, waiting.count, left, since if state == "crawling" else None)
    record = fields(answers.counted)
    done = _done(record)
    items, errors = totals_of(answers.pages.pieces[0].data) if answers.pages.pieces else (0, 0)
    status = Status(
        spider=view.spider,
        key=view.keys.requests,
        state=state,
        now=now,
        state_since=whole_of(meta.get("state_since")) / 1000,
        waiting=waiting.count,
        slots=answers.slots,
        next_turn_in=next_turn_in,
        leased=leased,
        delayed=answers.delayed,
        following=answers.following,
        unsent_signals=signals,
        failed=answers.failed,
        seeds=seeds,
        seen=seen,
        # 0 bytes of more than 0 entries means that this user may not ask for the size.
        waiting_bytes=waiting.bytes if waiting.bytes or not waiting.count else None,
        seen_bytes=seen_bytes if seen_bytes or not seen else None,
        run=whole_of(record.get("run")),
        began=whole_of(record.get("began")) / 1000,
        pages=whole_of(meta.get("pages")),
        items=items,
        errors=errors,
        counts={name: count for name, count in done.items() if not name.isdigit()},
        statuses={name: done[name] for name in sorted(done) if name.isdigit()},
        finished_at=whole_of(meta.get("finished") or finished) / 1000,
        failed_by_reason=_counts(answers.reasons),
        exchange_seconds=histogram(_counts(answers.times)),
        per_second=rates.per_second,
        items_per_second=rates.items_per_second,
        errors_per_second=rates.errors_per_second,
        per_hour=rates.per_hour,
        growth=rates.growth,
        seconds_left=rates.seconds_left,
        seconds_left_at_least=rates.seconds_left_at_least,
        found=whole_of(meta.get("found")),
        unshared=whole_of(meta.get("unshared")),
        unshared_reason=one_line(meta.get("unshared_reason", "")),
        unmet=_unmet(meta),
        pools=pools.counts,
        capped=whole_of(text_of(answers.caps[view.keys.slot_pages][0])),
        max_workers=whole_of(meta.get("max_workers")),
        places_taken=sum(deadline / 1000 > now for _, deadline in _scores(answers.places)),
        in_line=line,
        workers=about,
        history=history,
        made_with={name: meta[name] for name in _MADE_WITH if name in meta},
        cut=_cut(view, answers, pools),
    )
    delay = whole_of(meta.get("slot_default", "").partition(" ")[0].partition(".")[0]) / 1000
    status = replace(status, limit=limit_of(status))
    status = replace(status, workers_wanted=workers_wanted(status, delay))
    return with_time_left(view, status)


def _done(record: dict[str, str]) -> dict[str, int]:
    """Return the counts of all workers together, from the *record* of the crawl."""
    sums: Counter[str] = Counter()
    for name, text in record.items():
        if name == "done" or name.startswith("done "):
            sums.update(counts_of(text))
    return dict(sums)


def _ask(view: View) -> _State:
    keys = view.keys
    return asked(
        view,
        _State,
        time=command("time"),
        meta=part("HSCAN", keys.meta, MOST_FIELDS, LONGEST_FIELD),
        workers=part("zset", keys.workers, MOST_WORKERS),
        delayed=count("zcard", keys.delayed),
        following=count("zcard", keys.followers),
        group_news=count("hlen", keys.group_news),
        emptied=count("zcard", keys.groups_emptied),
        pools=count("hlen", keys.pools),
        failed=count("llen", keys.failed),
        seen=count("scard", keys.dupefilter),
        buckets=questions.fields({keys.seen_state: keys.seen_state}, "name first count"),
        finished=part("string", keys.finished, 1),
        reasons=part("HSCAN", keys.reasons, MOST_COUNTS),
        times=part("HSCAN", keys.times, MOST_COUNTS),
        converting=questions.fields({keys.converting: keys.converting}, "from"),
        caps=questions.fields({keys.slot_pages: keys.slot_pages}, "dropped"),
        pages=part("list", keys.pages, HISTORY),
        counted=part("HSCAN", keys.counts, MOST_RECORDS, LONGEST_ABOUT),
        slots=count("zcard", keys.slots),
        first_slots=part("zset", keys.slots, SLOTS),
        places=part("zset", keys.places, MOST_WORKERS),
        line=part("zset", keys.line, MOST_WORKERS),
        types={key: command("type", key) for key in (keys.requests, *keys.start_urls)},
    )


def _cut(view: View, answers: _State, pools: _Pools) -> str:
    """Return which keys were read in part, and why; empty if none was."""
    parts = ("meta", "workers", "reasons", "places", "line")
    cut = [str(getattr(view.keys, name)) for name in parts if not getattr(answers, name).is_all]
    cut += [] if all(pool.is_whole for pool in pools.counts) else [view.keys.pools]
    return f"{', '.join(cut)} (more or longer entries than workers write)" if cut else ""


def _scores(part: Part) -> list[tuple[str, float]]:
    """Return the members of a sorted set with their scores; a member that is too long is left out."""
    return [(text_of(piece.data), float(piece.name)) for piece in part.pieces if not piece.is_cut]


def _counts(part: Part) -> dict[str, int]:
    return {name: whole_of(count) for name, count in fields(part).items()}


def _ask_sizes(
    view: View, answers: _State, compact: _Buckets, slots: list[str], at_it: list[str], in_line: list[str]
) -> _Sizes:
    """Ask for lengths, sizes in bytes and data of workers and slots."""
    keys = view.keys
    sampled = (keys.requests, keys.dupefilter, *map(keys.queue, slots), *compact.samples)
    everybody = dict.fromkeys([*at_it, *in_line])
    return asked(
        view,
        _Sizes,
        # A key of another type counts as empty: workers do not read it, and the doctor reports it.
        lengths={
            key: count(_LENGTHS[kind], key) if kind in _LENGTHS else count("exists", never(key))
            for key, kind in answers.types.items()
        },
        memory={key: count("memory_usage", key, samples=SAMPLES) for key in sampled},
        slots=questions.fields({slot: keys.slot(split_place(slot)[0]) for slot in slots}, "tat blocked"),
        about=questions.fields({name: keys.worker(name) for name in everybody}, _OF_WORKER, LONGEST_ABOUT),
        held={name: count("hlen", keys.leases(name)) for name in at_it},
    )


def _unmet(meta: dict[str, str]) -> list[UnmetNeeds]:
    """Return the needs that no worker meets, as ``lua/exchange/conditions.lua`` notes them."""
    words = meta.get("unmet", "").split()
    noted = zip(*[iter(words)] * 3, strict=False)
    return [
        UnmetNeeds(sorted(names_in(lane)), whole_of(since) / 1000)
        for since, is_noted, lane in noted
        if is_noted == "1"
    ]


def _lacking(meta: dict[str, str], now: float) -> set[str]:
    """Return the worker that has asked for an item for its life in the last seconds, and got none."""
    name, _, asked_at = meta.get("item_wanted", "").partition(" ")
    is_late = now - whole_of(asked_at) / 1000 > ASKS_WITHIN
    return set() if not name or is_late else {name}


def _next_turn(score: float, state: list[bytes | None]) -> float:
    """Return when a slot gives its next request; its score may be later if a worker has its turns."""
    tat, blocked = (whole_of(text_of(value).partition(".")[0]) / 1000 for value in state)
    if math.isinf(score):  # its requests have needs, so that its turn is in another index
        return max(tat, blocked)
    return min(score / 1e6, max(tat, blocked) or math.inf)


class _Pools:
    """The pools of a crawl.

    :ivar counts: how many items of each are in which state.
    :ivar own: the items that workers have for their lives, by worker and pool.
    """

    def __init__(self, view: View, answers: _State) -> None:
        self.counts: list[PoolCounts] = []
        self.own: dict[str, dict[str, str]] = {}
        if not answers.pools:
            return
        pools = Pools(view)
        self.counts = pools.counts(MOST_ITEMS)
        for use in islice(pools.uses(), MOST_ITEMS):
            if not use.lease:
                self.own.setdefault(use.worker, {})[unquote(use.pool)] = unquote(use.item)


class _Waiting:
    """The number of waiting requests, and their approximate size in bytes.

    :ivar flat: the number of those without a slot.
    """

    def __init__(self, view: View, answers: _State, sizes: _Sizes, meta: dict[str, str]) -> None:
        keys = view.keys
        self.flat = self.count = sizes.lengths[keys.requests]
        self.bytes = sizes.memory[keys.requests]
        if not answers.slots:
            return
        self.count += max(answers.slots, whole_of(meta.get("in_slots")))
        of_slots = [sizes.memory[keys.queue(slot)] for slot in sizes.slots]
        self.bytes += sum(of_slots) * answers.slots // max(1, len(of_slots))


class _Buckets:
    """The buckets of a compact filter: see ``lua/store/filter/compact.lua``.

    :ivar samples: the keys of a bucket that has not been split, and of one that has been.
    """

    def __init__(self, view: View, state: Sequence[bytes | None]) -> None:
        name, first, self.count = text_of(state[0]), whole_of(state[1]), whole_of(state[2])
        level = 1 << max(0, first.bit_length() - 1)
        self._numbers = (2 * level - first, 2 * (first - level)) if self.count else (0, 0)
        bucket = view.keys.bucket
        self.samples = bucket(name, first), bucket(name, max(first, 2 * first - 1))

    def bytes(self, sizes: _Sizes) -> int:
        """Return the approximate size of all buckets."""
        return sum(n * sizes.memory[key] for n, key in zip(self._numbers, self.samples, strict=True))


def _worker(name: str, alive: bool, values: list[bytes | None], held: int, meta: dict[str, str]) -> Worker:
    reported = dict(zip(_OF_WORKER.split(), values, strict=True))
    try:
        about = json.loads(reported["about"] or b"{}")
    except (ValueError, RecursionError):
        about = {}
    if not isinstance(about, dict):
        about = {}
    joined = whole_of(reported["joined"])
    return Worker(
        name=name,
        alive=alive,
        host=str(about.get("host", "")),
        pid=whole_of(about.get("pid")),
        version=str(about.get("version", "")),
        scrapy=str(about.get("scrapy", "")),
        log=str(about.get("log", "")),
        pages=whole_of(reported["pages"]),
        in_hand=held,
        busy=reported["busy"] == b"1",
        joined=joined / 1e6,
        heard=whole_of(reported["heard"]) / 1000,
        limit=next((limit for limit in BOTTLENECKS if limit == text_of(reported["limit"])), "none"),
        offers=tuple(sorted(names_in(text_of(reported["offers"])))),
        told_to_stop=bool(reported["stop"]) or 0 < joined < whole_of(meta.get("stop")),
    )


def _state(
    meta: dict[str, str], workers: list[Worker], waiting: int, left: int, finished: bool, converted: Any
) -> str:
    alive = [worker for worker in workers if worker.alive]
    if converted:
        return "importing" if converted == b"import" else "converting"
    if alive and all(worker.told_to_stop for worker in alive):
        return "stopping"
    # Even if the queue is empty and no worker is alive: a worker that starts now begins no request.
    if meta.get("state") in ("paused", "draining"):
        return meta["state"]
    if alive:
        return "crawling" if left or any(worker.busy for worker in alive) else "idle"
    if left:
        return "stopped" if "epoch" in meta else "new"
    return "finished" if finished or "epoch" in meta else "new"
