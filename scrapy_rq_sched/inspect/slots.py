"""Read and change the slots of a frontier: waiting requests, next turn, limits, blocks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from urllib.parse import unquote

from ..codec.needs import split_place
from ..codec.pools import typed_place
from ..codec.slot_rules import SlotRule
from ..codec.slots import slot_name
from ..codec.values import text_of
from ..errors import InspectionError
from ..frontier.scripts import register
from ..keys import Keys
from . import own_keys
from .queues import Queues
from .view import View

#: Number of slots in a round trip.
STEP = 100


@dataclass(frozen=True)
class SlotStatus:
    """The status of a slot. Times are in seconds, by the server's clock.

    :param slot: its name.
    :param waiting: the number of its waiting requests.
    :param next_in: seconds until it can give a request; 0: now, or when a download ends.
    :param blocked_for: remaining seconds of its block; 0 if it is not blocked.
    :param block_reason: what its site has answered, if the fleet has blocked it for that; else empty.
    :param is_learnt: whether its delay is longer than its limits say, because of what its site has answered.
    :param delay: seconds between two requests, :param jitter: the share by which the delay varies, and
        :param concurrency: downloads at a time, 0 for any number; None if unknown.
    :param is_set: whether these limits were set while the crawl ran.
    :param owner: the worker that has its turns; empty if no worker has them.
    :param active: the number of its leases that are still being downloaded, if it has a concurrency.
    :param pages: its pages so far, and :param max_pages: its cap that was set while the crawl ran, each None
        if unknown; :param dropped: how many of its requests were dropped because of its cap.
    :param crawl_delay: the ``Crawl-delay`` of its robots.txt, if workers have read one; else 0.
    :param throttle: the delay that AutoThrottle has found for it; else 0.
    :param why: the cause for which admission refuses its next request now: ``blocked``, ``concurrency``,
        ``delay``, ``spider`` (another spider's turn), or ``unreachable``; empty if it does not.
    """

    slot: str
    waiting: int
    next_in: float = 0.0
    blocked_for: float = 0.0
    block_reason: str = ""
    is_learnt: bool = False
    delay: float | None = None
    jitter: float | None = None
    concurrency: int | None = None
    is_set: bool = False
    owner: str = ""
    active: int = 0
    pages: int | None = None
    max_pages: int | None = None
    dropped: int = 0
    crawl_delay: float = 0.0
    throttle: float = 0.0
    why: str = ""


class Slots:
    """The slots of *view*'s frontier.

    :raises InspectionError: if there is no frontier, or if its queue cannot be inspected.
    """

    def __init__(self, view: View) -> None:
        view.require()
        self.view = view
        self._script = register(view.server, "slot")
        self._look = register(view.server, "read_slots")

    def read(self, names: Iterable[str] | None = None) -> Iterator[SlotStatus]:
        """Yield the status of the slots *names*; by default of all with waiting requests, in no order."""
        names = iter((slot for slot in Queues(self.view).slots() if slot) if names is None else names)
        while some := list(islice(names, STEP)):
            yield from self._read(some)

    def find(self, text: str) -> tuple[str, bool]:
        """Return the name of the slot that a user calls *text*, and whether Redis has any data of it.

        *text* is Scrapy's name of the slot, the name that our commands show, or a host name in any case. Of a
        name that they show for requests with needs, it is the part before the bar.
        """
        names = [slot_name(text), text, slot_name(text.lower()), typed_place(text)]
        for name in names:
            keys = self.view.keys
            known = self.view.server.zscore(keys.slots, name) is not None
            if known or self.view.server.exists(keys.slot(name)):
                return split_place(name)[0], True
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
            "-" if value is None else repr(value)
            for value in (rule.delay, rule.jitter, rule.concurrency, rule.max_pages)
        )
        delay, jitter, concurrency, pages = texts
        if rule.delay is not None:
            delay = repr(1000 * rule.delay)
        self._change(slot, "set", delay, jitter, concurrency, pages)

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
        self._script(self.view.keys.all(), [split_place(slot)[0], *change])

    def _read(self, names: list[str]) -> Iterator[SlotStatus]:
        header = json.dumps({"worker": "", "lease_ms": 0, "is_sorted": self.view.is_sorted})
        for text in self._look(self.view.keys.all(), [header, *names]):
            found = json.loads(text_of(text))
            for name in {"next_in", "blocked_for", "delay", "crawl_delay", "throttle"} & found.keys():
                found[name] /= 1000
            for name in {"concurrency", "pages", "max_pages", "dropped"} & found.keys():
                found[name] = int(found[name])
            yield SlotStatus(**found)


def clock_of(keys: Keys) -> str:
    """Return the key of the frontier's time. Spiders that share the states of slots also share the time."""
    return keys.shared_clock if keys.shares_slots else keys.meta
