"""Read and change the slots of a frontier: waiting requests, next turn, limits, blocks."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from urllib.parse import unquote

from ..codec.slot_rules import SlotRule
from ..codec.slots import slot_name
from ..codec.values import number_of, text_of
from ..errors import InspectionError
from ..frontier.scripts import register
from ..keys import Keys
from . import own_keys
from .queues import Queues
from .read_status import MOST_WORKERS
from .view import View, read_meta

#: Number of slots in a round trip.
STEP = 200
#: Before a slot's name, the field with the limits that were set for it: see ``lua/slots/slots.lua``.
SET = "set "


@dataclass(frozen=True)
class SlotStatus:
    """The status of a slot. Times are in seconds, by the server's clock.

    :param slot: its name.
    :param waiting: the number of its waiting requests.
    :param next_in: seconds until it can give a request; 0: now, or its next turn is not planned.
    :param blocked_for: remaining seconds of its block; 0 if it is not blocked.
    :param delay: seconds between two requests, :param jitter: the share by which the delay varies, and
        :param concurrency: downloads at a time, 0 for any number; None if unknown.
    :param is_set: whether these limits were set while the crawl ran.
    :param owner: the worker that has its turns; empty if no worker has them.
    :param active: the number of its leases that are still being downloaded, if it has a concurrency.
    """

    slot: str
    waiting: int
    next_in: float = 0.0
    blocked_for: float = 0.0
    delay: float | None = None
    jitter: float | None = None
    concurrency: int | None = None
    is_set: bool = False
    owner: str = ""
    active: int = 0

    @property
    def why(self) -> str:
        """The reason why it gives no request now; empty if it does."""
        if self.blocked_for:
            return "blocked"
        if self.concurrency and self.active >= self.concurrency:
            return "concurrency"
        return "delay" if self.next_in else ""


class Slots:
    """The slots of *view*'s frontier.

    :raises InspectionError: if there is no frontier, or if its queue cannot be inspected.
    """

    def __init__(self, view: View) -> None:
        view.require()
        self.view = view
        self._script = register(view.server, "slot")

    def read(self, names: Iterable[str] | None = None) -> Iterator[SlotStatus]:
        """Yield the status of the slots *names*; by default of all with waiting requests, in no order."""
        names = iter((slot for slot in Queues(self.view).slots() if slot) if names is None else names)
        while some := list(islice(names, STEP)):
            yield from self._read(some)

    def find(self, text: str) -> tuple[str, bool]:
        """Return the name of the slot that a user calls *text*, and whether Redis has any data of it.

        *text* is Scrapy's name of the slot, the name that our commands show, or a host name in any case.
        """
        names = [slot_name(text), text, slot_name(text.lower())]
        for name in names:
            keys = self.view.keys
            known = self.view.server.zscore(keys.slots, name) is not None
            if known or self.view.server.exists(keys.slot(name)):
                return name, True
        is_name = "%" in text and slot_name(unquote(text)) == text
        return (text if is_name else names[2]), False

    def named(self, text: str) -> str:
        """Return the name of the slot to change.

        :raises InspectionError: if *text* is a pattern or a URL, and Redis has no slot of that name.
        """
        name, is_known = self.find(text)
        if not is_known and any(mark in text for mark in "*?/"):
            raise InspectionError(
                f"The name of a slot must be a host name such as www.example.com, or the value of "
                f"download_slot, not {text!r}. Patterns work in FRONTIER_SLOTS only"
            )
        return name

    def with_state(self) -> Iterator[str]:
        """Yield the slots that have a state, also those without waiting requests. This scans all keys."""
        prefix = self.view.keys.slot("")
        pattern = re.sub(r"([\[\]*?\\])", r"\\\1", prefix) + "*"
        for key in self.view.server.scan_iter(pattern, count=STEP, _type="hash"):
            name = text_of(key)
            if name != self.view.keys.shared_clock:
                yield name.removeprefix(prefix)

    def set(self, slot: str, rule: SlotRule) -> None:
        """Apply *rule* to *slot* until the crawl is finished; it overrides the settings."""
        texts = (
            "-" if value is None else repr(value) for value in (rule.delay, rule.jitter, rule.concurrency)
        )
        delay, jitter, concurrency = texts
        if rule.delay is not None:
            delay = repr(1000 * rule.delay)
        self._change(slot, "set", delay, jitter, concurrency)

    def reset(self, slot: str) -> None:
        """Apply the settings to *slot* again."""
        self._change(slot, "reset")

    def block(self, slot: str, seconds: float) -> None:
        """Let *slot* give no request for a number of *seconds*."""
        self._change(slot, "block", str(max(1, round(1000 * seconds))))

    def unblock(self, slot: str) -> None:
        """Let *slot* give requests again."""
        self._change(slot, "block", "0")

    def _change(self, slot: str, *change: str) -> None:
        own_keys.require(self.view)
        self._script(self.view.keys.all(), [slot, *change])

    def _read(self, names: list[str]) -> Iterator[SlotStatus]:
        keys, pipe = self.view.keys, self.view.pipeline()
        pipe.time()
        for name in names:
            key = keys.queue(name)
            if self.view.is_sorted:
                pipe.zcard(key)
            else:
                pipe.llen(key)
            pipe.zscore(keys.slots, name)
            pipe.hgetall(keys.slot(name))
            pipe.hmget(keys.slot_limits, name, name.lower(), f"{SET}{name}")
        pipe.hget(clock_of(keys), "clock_ahead")
        # The dead ones come first.
        pipe.zrange(keys.workers, 0, MOST_WORKERS - 1, withscores=True)
        (seconds, microseconds), *replies, ahead, workers = pipe.execute()
        # Leases of dead workers do not count. Only this spider's workers are known here.
        dead = {worker for worker, deadline in workers if deadline <= seconds * 1000 + microseconds / 1000}
        meta = read_meta(self.view.server, keys.meta)
        now = seconds * 1000 + microseconds / 1000 + number_of(ahead)
        for place, name in enumerate(names):
            waiting, score, state, limits = replies[4 * place : 4 * place + 4]
            yield _status(name, waiting, score, state, _in_force(name, limits, meta), now, dead)


def _in_force(slot: str, fields: list[bytes | None], meta: Mapping[str, str]) -> tuple[list[str], bool]:
    """Return delay, jitter and concurrency of *slot*, and whether any of them was set during the crawl.

    :param fields: the slot's fields of the limits, as in ``lua/slots/limits.lua``: by its name, by its
        name in lower case, and the limits that were set.
    """
    exact, lower, were_set = (text_of(field).split(" ") for field in fields)
    *named, rules = exact if exact != [""] else lower
    default = _by_pattern(slot, meta.get("slot_patterns", "")) or meta.get("slot_default", "").split(" ")
    by_settings = named if rules and rules == meta.get("rules", "") else default
    # An older version has written the limits that were set in another form.
    in_force = _over(named if rules == "set" else were_set, _over(by_settings, ["-", "-", "-"]))
    return in_force, rules == "set" or were_set != [""]


def _over(limits: list[str], others: list[str]) -> list[str]:
    """Return *limits*; a limit that is ``-`` is that of *others*."""
    if len(limits) != len(others):
        return others
    return [other if its == "-" else its for its, other in zip(limits, others, strict=True)]


def _by_pattern(slot: str, patterns: str) -> list[str]:
    """Return the limits of the first of the *patterns* in ``meta`` that fits *slot*; empty if none does."""
    try:
        found = json.loads(patterns or "[]")
        return next(([str(its) for its in one[2:5]] for one in found if SlotRule(one[0]).fits(slot)), [])
    except (ValueError, TypeError, LookupError, AttributeError):  # another program has written it
        return []


def _status(
    name: str,
    waiting: int,
    score: float | None,
    state: dict[bytes, bytes],
    limits: tuple[list[str], bool],
    now: float,
    dead: Collection[bytes],
) -> SlotStatus:
    in_force, is_set = limits
    numbers = [None if value == "-" else number_of(value) for value in in_force]
    blocked, tat = number_of(state.get(b"blocked")), number_of(state.get(b"tat"))
    due = max(tat, blocked) if waiting and score is not None else blocked
    active = sum(
        int(number_of(value.partition(b" ")[0]))
        for field, value in state.items()
        if field.startswith(b"a:") and field[2:] not in dead
    )
    return SlotStatus(
        slot=name,
        waiting=waiting,
        next_in=max(0.0, due - now) / 1000,
        blocked_for=max(0.0, blocked - now) / 1000,
        delay=None if numbers[0] is None else numbers[0] / 1000,
        jitter=numbers[1],
        concurrency=None if numbers[2] is None else int(numbers[2]),
        is_set=is_set,
        owner=text_of(state.get(b"owner")) if number_of(state.get(b"pending")) else "",
        active=active,
    )


def clock_of(keys: Keys) -> str:
    """Return the key of the frontier's time. Spiders that share the states of slots also share the time."""
    return keys.shared_clock if keys.shares_slots else keys.meta
