"""Read the status of a crawl, in two round trips."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import one_line
from ..frontier.entries import Part
from ..frontier.exchange_times import histogram
from ..frontier.messages import LIMITS
from .limit import limit_of
from .questions import Questions, asked
from .rates import Rates, moments
from .status import Status, Worker
from .view import LONGEST_FIELD, MOST_FIELDS, View, fields
from .wanted import workers_wanted

#: Number of members from which Redis estimates the size of a key; and number of slots that are sampled.
SAMPLES = SLOTS = 5
#: Counts of pages that are read: as many as ``exchange/reply.lua`` keeps, of ten seconds each.
HISTORY = 361
#: Workers, also in line; and reasons and durations, that are read. Another program may have written millions.
MOST_WORKERS, MOST_COUNTS = 1000, 1000
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
_SAID = "about pages busy joined heard limit"
_LENGTHS = {b"list": "llen", b"zset": "zcard", b"set": "scard"}


def read_status(view: View) -> Status:
    """Return the status of *view*'s frontier, in two round trips.

    :raises redis.exceptions.RedisError: if Redis does not answer.
    """
    told = asked(view, lambda questions: _ask(view, questions))
    # Without the right to TIME, use this machine's clock.
    now = told["time"][0] + told["time"][1] / 1e6 if told["time"] else time.time()
    meta = fields(told["meta"])
    slots = _scores(told["first slots"])
    compact = _Buckets(view.keys.dupefilter, told["buckets"][0])
    sizes = asked(view, lambda questions: _ask_sizes(view, questions, told, compact))
    states = dict(zip((slot for slot, _ in slots), sizes["slots"], strict=False))
    names = dict.fromkeys([*(name for name, _ in _scores(told["workers"])), *_line(told)])
    about_of = dict(zip(names, sizes["about"], strict=False))

    waiting = _Waiting(view, told, sizes, meta)
    next_turn_in = 0.0
    if slots and not waiting.flat:
        ahead = _number(meta.get("clock_ahead", "").partition(".")[0]) / 1000
        first = min(_next_turn(score, states.get(slot)) for slot, score in slots)
        next_turn_in = max(0.0, first - ahead - now)
    seeds = sum(sizes[f"length of {key}"] for key in view.keys.start_urls)
    seen_bytes = int(sizes[f"bytes of {view.keys.dupefilter}"])
    seen_bytes += compact.bytes(*(int(sizes[f"bytes of {key}"]) for key in compact.samples))
    seen = (told["seen"] or 0) + compact.count
    about = [
        _worker(name, deadline / 1000 > now, about_of.get(name), sizes[f"held by {name}"] or 0, meta)
        for name, deadline in _scores(told["workers"])
    ]
    at_it = {worker.name for worker in about}
    line = [
        replace(_worker(name, True, about_of.get(name), 0, meta), place=place)
        for place, name in enumerate(_line(told), 1)
        # A worker in line without data here belongs to another spider that shares the places.
        if name not in at_it and any(about_of.get(name) or ())
    ]
    history = moments([piece.data for piece in told["pages"].pieces])
    finished = next((piece.data for piece in told["finished"].pieces), b"")
    leased = sum(worker.in_hand for worker in about)
    left = waiting.count + leased + (told["delayed"] or 0) + seeds
    # Pages before the first live worker joined do not tell how fast the live ones are.
    since = min((worker.joined for worker in about if worker.alive), default=None)
    state = _state(meta, about, waiting.count, left, bool(finished), told["converted"][0][0])
    rates = Rates(history, now, waiting.count, left, since if state == "crawling" else None)
    status = Status(
        spider=view.spider,
        key=view.keys.requests,
        state=state,
        now=now,
        state_since=_number(meta.get("state_since")) / 1000,
        waiting=waiting.count,
        slots=told["slots"] or 0,
        next_turn_in=next_turn_in,
        leased=leased,
        delayed=told["delayed"] or 0,
        failed=told["failed"] or 0,
        seeds=seeds,
        seen=seen,
        # 0 bytes of more than 0 entries means that this user may not ask for the size.
        waiting_bytes=waiting.bytes if waiting.bytes or not waiting.count else None,
        seen_bytes=seen_bytes if seen_bytes or not seen else None,
        pages=_number(meta.get("pages")),
        finished_at=_number(meta.get("finished") or finished) / 1000,
        failed_by_reason=_counts(told["reasons"]),
        exchange_seconds=histogram(_counts(told["times"])),
        per_second=rates.per_second,
        per_hour=rates.per_hour,
        growth=rates.growth,
        seconds_left=rates.seconds_left,
        seconds_left_at_least=rates.seconds_left_at_least,
        found=_number(meta.get("found")),
        unshared=_number(meta.get("unshared")),
        unshared_reason=one_line(meta.get("unshared_reason", "")),
        max_workers=_number(meta.get("max_workers")),
        places_taken=sum(deadline / 1000 > now for _, deadline in _scores(told["places"])),
        in_line=line,
        workers=about,
        history=history,
        made_with={name: meta[name] for name in _MADE_WITH if name in meta},
        cut=_cut(view, told),
    )
    delay = _number(meta.get("slot_default", "").partition(" ")[0].partition(".")[0]) / 1000
    status = replace(status, limit=limit_of(status))
    return replace(status, workers_wanted=workers_wanted(status, delay))


def _ask(view: View, questions: Questions) -> None:
    keys, ask = view.keys, questions.ask
    ask("time").time()
    questions.part("meta", "HSCAN", keys.meta, MOST_FIELDS, LONGEST_FIELD)
    questions.part("workers", "zset", keys.workers, MOST_WORKERS)
    ask("delayed").zcard(keys.delayed)
    ask("failed").llen(keys.failed)
    ask("seen").scard(keys.dupefilter)
    questions.fields("buckets", [f"{keys.dupefilter}:buckets"], "name first count")
    questions.part("finished", "string", keys.finished, 1)
    questions.part("reasons", "HSCAN", keys.reasons, MOST_COUNTS)
    questions.part("times", "HSCAN", keys.times, MOST_COUNTS)
    questions.fields("converted", [keys.converting], "from")
    questions.part("pages", "list", keys.pages, HISTORY)
    ask("slots").zcard(keys.slots)
    questions.part("first slots", "zset", keys.slots, SLOTS)
    questions.part("places", "zset", keys.places, MOST_WORKERS)
    questions.part("line", "zset", keys.line, MOST_WORKERS)
    for key in (keys.requests, *keys.start_urls):
        ask(f"type of {key}").type(key)


def _cut(view: View, told: Mapping[str, Any]) -> str:
    """Return which keys were read in part, and why; empty if none was."""
    keys = view.keys
    asked = {
        "meta": keys.meta,
        "workers": keys.workers,
        "reasons": keys.reasons,
        "places": keys.places,
        "line": keys.line,
    }
    cut = [key for name, key in asked.items() if not told[name].is_all]
    if not cut:
        return ""
    return f"{', '.join(cut)} (more or longer entries than workers write)"


def _scores(part: Part) -> list[tuple[str, float]]:
    """Return the members of a sorted set with their scores; a member that is too long is left out."""
    return [(_text(piece.data), float(piece.name)) for piece in part.pieces if not piece.is_cut]


def _counts(part: Part) -> dict[str, int]:
    return {name: _number(count) for name, count in fields(part).items()}


def _line(told: Mapping[str, Any]) -> list[str]:
    return [worker for worker, _ in _scores(told["line"])]


def _ask_sizes(view: View, questions: Questions, told: Mapping[str, Any], compact: _Buckets) -> None:
    """Ask for lengths, sizes in bytes and data of workers and slots."""
    keys, ask = view.keys, questions.ask
    slots = [slot for slot, _ in _scores(told["first slots"])]

    def or_0(reply: Any) -> Any:
        return reply or 0

    for key in (keys.requests, *keys.start_urls):
        # A key of another type counts as empty: workers do not read it, and the doctor reports it.
        kind = told[f"type of {key}"]
        command = getattr(ask(f"length of {key}", or_0), _LENGTHS.get(kind, "exists"))
        command(key if kind in _LENGTHS else f"{key}:never")
    sampled = (keys.requests, keys.dupefilter, *map(keys.queue, slots), *compact.samples)
    for key in sampled:
        ask(f"bytes of {key}", or_0).memory_usage(key, samples=SAMPLES)
    questions.fields("slots", [keys.slot(slot) for slot in slots], "tat blocked")
    at_it = [worker for worker, _ in _scores(told["workers"])]
    everybody = dict.fromkeys([*at_it, *_line(told)])
    questions.fields("about", [keys.worker(worker) for worker in everybody], _SAID, LONGEST_ABOUT)
    for worker in at_it:
        ask(f"held by {worker}", or_0).hlen(keys.leases(worker))


def _next_turn(score: float, state: Any) -> float:
    """Return when a slot gives its next request; its score may be later if a worker has its turns."""
    tat, blocked = (_number(_text(said or b"").partition(".")[0]) / 1000 for said in state or (None, None))
    return min(score / 1e6, max(tat, blocked) or math.inf)


class _Waiting:
    """The number of waiting requests, and their approximate size in bytes.

    :ivar flat: the number of those without a slot.
    """

    def __init__(
        self, view: View, told: Mapping[str, Any], sizes: Mapping[str, Any], meta: dict[str, str]
    ) -> None:
        keys = view.keys
        self.flat = self.count = int(sizes[f"length of {keys.requests}"])
        self.bytes = int(sizes[f"bytes of {keys.requests}"])
        slots = told["slots"] or 0
        if not slots:
            return
        self.count += max(slots, _number(meta.get("in_slots")))
        of_slots = [int(sizes[f"bytes of {keys.queue(slot)}"]) for slot, _ in _scores(told["first slots"])]
        self.bytes += sum(of_slots) * slots // max(1, len(of_slots))


class _Buckets:
    """The buckets of a compact filter: see ``lua/filter/compact.lua``."""

    def __init__(self, key: str, state: Sequence[Any]) -> None:
        name, first, self.count = _text(state[0] or b""), _number(state[1]), _number(state[2])
        level = 1 << max(0, first.bit_length() - 1)
        self._whole, self._halves = 2 * level - first, 2 * (first - level)
        self.samples = f"{key}:{name}:{first}", f"{key}:{name}:{max(first, 2 * first - 1)}"
        if not self.count:
            self._whole = self._halves = 0

    def bytes(self, whole: int, half: int) -> int:
        """Return the approximate size of all buckets.

        :param whole: the size of a bucket that has not been split, and :param half: of one that has been.
        """
        return self._whole * whole + self._halves * half


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _number(text: Any) -> int:
    try:
        number = int(text or 0)
    except (ValueError, TypeError, OverflowError):  # another program has written it
        return 0
    return number if abs(number) < 2**63 else 0


def _worker(name: str, alive: bool, said: Any, held: int, meta: dict[str, str]) -> Worker:
    said = said or [None] * len(_SAID.split())
    try:
        about = json.loads(said[0] or b"{}")
    except (ValueError, RecursionError):
        about = {}
    if not isinstance(about, dict):
        about = {}
    joined = _number(said[3])
    return Worker(
        name=name,
        alive=alive,
        host=str(about.get("host", "")),
        pid=_number(about.get("pid")),
        version=str(about.get("version", "")),
        scrapy=str(about.get("scrapy", "")),
        pages=_number(said[1]),
        in_hand=held,
        busy=said[2] == b"1",
        joined=joined / 1e6,
        heard=_number(said[4]) / 1000,
        limit=next((limit for limit in LIMITS if limit == _text(said[5] or b"")), "none"),
        told_to_stop=0 < joined < _number(meta.get("stop")),
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
