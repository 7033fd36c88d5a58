"""Remove waiting requests, or give them another priority."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from itertools import groupby
from typing import Any

from ...codec.patterns import Host, Pattern
from ...errors import InspectionError, UnserializableRequestError, frontier_command, one_line
from ...frontier.entries import WHOLE
from ...frontier.scripts import register
from ...serializers import faithful
from .. import own_keys
from ..entries import STEP, Entry, Reader
from ..explain import needle_of
from ..fingerprint import Fingerprinter
from ..queues import SEARCH_STEP, Queues
from ..read_status import read_status
from ..view import View
from ..wording import counted
from .forget import forget, in_steps
from .operation import DONE, PLANNED, Mood, Observer, Operation

#: The requests of each step of a search, or of a change.
Steps = Generator[list[Entry], None, None]
#: Tells whether an entry is to be changed.
Chosen = Callable[[Entry], bool]


class Waiting:
    """Changes the waiting requests of *view*'s frontier.

    :raises InspectionError: if there is no frontier, if its queue cannot be inspected, or if ``meta`` names
        keys that are not the frontier's.
    """

    def __init__(self, view: View) -> None:
        view.require()
        own_keys.require(view)
        self._view = view
        self._reader = Reader(view, WHOLE)
        self._queues = Queues(view)
        #: The requests that could not be written with another priority, each with the reason.
        self.unwritable: list[str] = []
        self._rewrite = register(view.server, "rewrite", "priority")
        self._sift = register(view.server, "sift")

    def find(self, chosen: Chosen, needle: bytes | None = None) -> Steps:
        """Yield the waiting requests that are *chosen*, a list for each step, which may be empty.

        :param needle: bytes that all chosen entries contain, if known.
        """
        for entries in self._queues.waiting(needle):
            yield [entry for _, entry in entries if chosen(entry)]

    def remove(
        self,
        chosen: Chosen,
        needle: bytes | None = None,
        before: Callable[[list[Entry]], None] = lambda _: None,
    ) -> Steps:
        """Remove the *chosen* requests, a step at a time, and yield those removed. They still count as seen.

        A list is rotated once completely, so that each step is short. Meanwhile no worker may take from it.
        If the iterator is closed earlier, the list is rotated to its end, and no more are removed.

        :param before: called with the requests that are about to be removed.
        :raises InspectionError: if the queue is a list from which workers take, or if it is being exported.
        """
        if self._view.is_sorted:
            for entries in self.find(chosen, needle):
                before(entries)
                yield self._change([(entry, b"", 0.0) for entry in entries])
            return
        self._check_rest()
        for slot in self._queues.slots():
            yield from self._sift_list(slot, chosen, before)

    def reprioritize(self, chosen: Chosen, priority: int, needle: bytes | None = None) -> Steps:
        """Give the *chosen* requests another priority, a step at a time, and yield those changed.

        Requests of equal priority keep the order of their arrival.

        :raises InspectionError: if the queue has no priorities, or if it is being exported.
        """
        if not self._view.queue_class.has_priorities:
            raise InspectionError(
                f"The queue of spider {self._view.spider!r} is a {self._view.queue_class.__name__}, which "
                "has no priorities"
            )

        def changes(entries: list[Entry]) -> list[tuple[Entry, bytes, float]]:
            found = [self._with_priority(e, priority) for e in entries if self._differs(e, priority)]
            return [change for change in found if change is not None]

        return (self._change(changes(entries)) for entries in self.find(chosen, needle))

    @staticmethod
    def _differs(entry: Entry, priority: int) -> bool:
        return entry.priority != priority or (entry.fields or {}).get("priority", 0) != priority

    def _with_priority(self, entry: Entry, priority: int) -> tuple[Entry, bytes, float] | None:
        fields = dict(entry.fields or {})
        # Also in the request itself: a retry copies its priority from there.
        fields["priority"] = priority
        if not priority and "_class" not in fields:
            del fields["priority"]
        try:
            data = faithful.dump(self._view.serializer, fields)
        except UnserializableRequestError as error:
            self.unwritable.append(f"{entry.url}: {error}")
            return None
        score = entry.score or 0.0
        arrived = score - math.floor(score) if math.isfinite(score) else 0.0
        return entry, data, -priority + arrived

    def _change(self, changes: list[tuple[Entry, bytes, float]]) -> list[Entry]:
        changed: list[Entry] = []
        by_slot = sorted(changes, key=lambda change: change[0].slot)
        for slot, its in groupby(by_slot, key=lambda change: change[0].slot):
            changed += self._change_in(slot, its)
        return changed

    def _change_in(self, slot: str, changes: Iterable[tuple[Entry, bytes, float]]) -> list[Entry]:
        changed: list[Entry] = []
        for part in in_steps(changes):
            arguments: list[Any] = [len(part)]
            for entry, data, score in part:
                arguments += [entry.data, data, repr(score)]
            done = self._rewrite(self._view.keys.of_queue(slot), arguments)
            if done == -1:
                raise _exported(self._view)
            changed += [part[place - 1][0] for place in done]
        return changed

    def _check_rest(self) -> None:
        view = self._view
        leased = any(held.alive for held in self._reader.held())
        seconds, _ = view.server.time()
        workers = view.server.zcount(view.keys.workers, f"({seconds * 1000}", "+inf")
        state = view.server.hget(view.keys.meta, "state")
        if workers and (leased or state not in (b"paused", b"draining")):
            raise InspectionError(
                f"The queue of spider {view.spider!r} is a list. Requests cannot be removed from its middle "
                f"while workers use it. First pause the crawl ({frontier_command('pause', view.spider)}) and "
                "wait until no request is leased"
            )

    def _sift_list(self, slot: str, chosen: Chosen, before: Callable[[list[Entry]], None]) -> Steps:
        key, server = self._view.keys.queue(slot), self._view.server
        left, is_closed = server.llen(key), False
        while left > 0:
            tail = server.lrange(key, -min(STEP, left), -1)[::-1]
            entries = [self._reader.request(data, None, slot) for data in tail]
            gone = [not is_closed and chosen(entry) for entry in entries]
            removed = [entry for entry, is_gone in zip(entries, gone, strict=True) if is_gone]
            before(removed)
            arguments: list[Any] = [len(entries)]
            for entry, is_gone in zip(entries, gone, strict=True):
                arguments += [entry.data, int(not is_gone)]
            done = self._sift(self._view.keys.of_queue(slot), arguments)
            if done == -1:
                raise _exported(self._view)
            if done:  # else a worker has taken some of them, and the tail is read again
                left -= len(entries)
            if done and not is_closed:
                try:
                    yield removed
                except GeneratorExit:
                    is_closed = True  # a list that is rotated halfway would have another order
            left = min(left, server.llen(key))


def remove_waiting(
    view: View, observer: Observer, matcher: Host | Pattern, forgets: bool = False
) -> Operation:
    """Remove the waiting requests with a URL that *matcher* matches. They still count as seen.

    :param forgets: whether they count as not seen.
    """
    make = Fingerprinter(view).of_fields if forgets else None

    def forget_them(entries: list[Entry]) -> None:
        if make is not None:
            forget(view, [make(entry.fields or {}) for entry in entries])

    # Forget first: a removed request that still counts as seen would never be crawled.
    return _of_waiting(
        view,
        observer,
        matcher,
        "removed",
        lambda waiting, chosen, needle: waiting.remove(chosen, needle, forget_them),
    )


def reprioritize_waiting(view: View, observer: Observer, matcher: Host | Pattern, priority: int) -> Operation:
    """Give another *priority* to the waiting requests with a URL that *matcher* matches."""
    return _of_waiting(
        view,
        observer,
        matcher,
        "given that priority",
        lambda waiting, chosen, needle: waiting.reprioritize(chosen, priority, needle),
    )


def _of_waiting(
    view: View,
    observer: Observer,
    matcher: Host | Pattern,
    done: str,
    change: Callable[[Waiting, Chosen, bytes | None], Steps],
) -> Operation:
    waiting, total = Waiting(view), read_status(view).waiting
    needle = needle_of(view, max(matcher.text.split("*"), key=len)) if isinstance(matcher, Pattern) else None

    def chosen(entry: Entry) -> bool:
        return bool(entry.url) and matcher.matches(entry.url)

    def text(count: int, mood: Mood) -> str:
        requests = f"{counted(total, 'waiting request')} of spider {view.spider}"
        return f"{count:,} of {requests} {mood.be(count)} {done}"

    def met(mood: Mood) -> int:
        count, left = 0, total
        # A change begins with its first step.
        steps = change(waiting, chosen, needle)
        if mood is PLANNED:
            steps = waiting.find(chosen, needle)
        try:
            with observer.progress(done, total) as advance, closing(steps):
                for found in steps:
                    count += len(found)
                    step = min(SEARCH_STEP if view.is_sorted else STEP, left)
                    left -= step
                    advance(step)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"interrupted: {text(count, mood)}. The others are unchanged") from None
        finally:
            if waiting.unwritable:
                observer.warn(
                    f"{counted(len(waiting.unwritable), 'request')} not changed, because the serializer "
                    f"cannot write them again, such as {one_line(waiting.unwritable[0])}"
                )
        return count

    return Operation(text, lambda: met(PLANNED), lambda: met(DONE))


def _exported(view: View) -> InspectionError:
    return InspectionError(
        f"The frontier of spider {view.spider!r} is being exported, and the export would miss requests that "
        "move. Try again after the export"
    )
