"""Change a frontier: remove or reorder waiting requests, forget seen ones, or clear all of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from typing import Any

from ..errors import InspectionError, UnserializableRequestError, frontier_command
from ..frontier.entries import WHOLE
from ..frontier.scripts import filter_step, register
from ..serializers import faithful
from . import own_keys
from .entries import STEP, Entry, Reader
from .queues import Queues
from .view import View
from .wording import counted

#: Tells whether an entry is to be changed.
Chosen = Callable[[Entry], bool]

#: The parts of a frontier that :func:`clear` can keep.
KEEPABLE = ("seeds", "failed", "seen")


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

    def find(self, chosen: Chosen, needle: bytes | None = None) -> Iterator[list[Entry]]:
        """Yield the waiting requests that are *chosen*, a list for each step, which may be empty.

        :param needle: bytes that all chosen entries contain, if known.
        """
        for entries in self._queues.waiting(needle):
            yield [entry for _, entry in entries if chosen(entry)]

    def remove(
        self,
        chosen: Chosen,
        needle: bytes | None = None,
        ends: Callable[[], bool] = lambda: False,
        before: Callable[[list[Entry]], None] = lambda _: None,
    ) -> Iterator[list[Entry]]:
        """Remove the *chosen* requests, a step at a time, and yield those removed. They still count as seen.

        A list is rotated once completely, so that each step is short. Meanwhile no worker may take from it.

        :param before: called with the requests that are about to be removed.
        :param ends: returns whether to remove no more; even then a list is rotated to its end.
        :raises InspectionError: if the queue is a list from which workers take, or if it is being exported.
        """
        if self._view.is_sorted:
            for entries in self.find(chosen, needle):
                if ends():
                    return
                before(entries)
                yield self._change([(entry, b"", 0.0) for entry in entries])
            return
        self._check_rest()
        for slot in self._queues.slots():
            yield from self._sift_list(slot, chosen, ends, before)

    def reprioritize(
        self, chosen: Chosen, priority: int, needle: bytes | None = None
    ) -> Iterator[list[Entry]]:
        """Give the *chosen* requests another priority, a step at a time, and yield those changed.

        Requests of equal priority keep the order of their arrival.

        :raises InspectionError: if the queue has no priorities, or if it is being exported.
        """
        if not self._view.is_sorted:
            raise InspectionError(
                f"The queue of spider {self._view.spider!r} is a {self._view.queue_class.__name__}, which "
                "has no priorities"
            )
        for entries in self.find(chosen, needle):
            changes = [self._with_priority(e, priority) for e in entries if self._differs(e, priority)]
            yield self._change([change for change in changes if change is not None])

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

    def _sift_list(
        self, slot: str, chosen: Chosen, ends: Callable[[], bool], before: Callable[[list[Entry]], None]
    ) -> Iterator[list[Entry]]:
        key, server = self._view.keys.queue(slot), self._view.server
        left = server.llen(key)
        while left > 0:
            tail = server.lrange(key, -min(STEP, left), -1)[::-1]
            entries = [self._reader.request(data, None, slot) for data in tail]
            # Rotate to the end even when interrupted: a list rotated halfway would have another order.
            gone = [not ends() and chosen(entry) for entry in entries]
            before([entry for entry, is_gone in zip(entries, gone, strict=True) if is_gone])
            arguments: list[Any] = [len(entries)]
            for entry, is_gone in zip(entries, gone, strict=True):
                arguments += [entry.data, int(not is_gone)]
            done = self._sift(self._view.keys.of_queue(slot), arguments)
            if done == -1:
                raise _exported(self._view)
            if done:  # else a worker has taken some of them, and the tail is read again
                left -= len(entries)
                yield [entry for entry, is_gone in zip(entries, gone, strict=True) if is_gone]
            left = min(left, server.llen(key))


def forget(view: View, fingerprints: Iterable[str]) -> int:
    """Make requests count as not seen, and as start requests that this crawl has not sent yet.

    :param fingerprints: those of the requests, made by :class:`Fingerprinter`.
    :return: how many of them had been seen.
    :raises InspectionError: if ``meta`` names keys that are not the frontier's: see :mod:`.own_keys`.
    """
    own_keys.require(view)
    script = register(view.server, "forget", dupefilter=view.dupefilter)
    forgotten = 0
    for part in in_steps(fingerprints):
        forgotten += int(script(view.keys.all(), [len(part), *part]))
    return forgotten


def clear(view: View, force: bool = False, keep: Iterable[str] = ()) -> str:
    """Remove the frontier. Items and statistics stay.

    :param force: whether to clear it even if workers are alive; they log that it was removed.
    :param keep: members of :data:`KEEPABLE` that stay.
    :return: the other frontier that shares the dupefilter, which was therefore kept; empty if not shared.
    :raises InspectionError: if workers are alive, unless *force*; or if ``meta`` names keys that are not the
        frontier's.
    """
    own_keys.require(view)
    script = register(view.server, "clear")
    keep = set(keep)
    flags = [int(name in keep) for name in KEEPABLE]
    problem, what = script(view.keys.all(), [int(force), *flags, view.keys.prefix])
    if problem == b"alive":
        alive = "1 worker is" if int(what) == 1 else f"{counted(int(what), 'worker')} are"
        raise InspectionError(
            f"{alive} alive at the frontier of spider {view.spider!r}. Stop the crawl first: "
            f"{frontier_command('stop', view.spider)}. Or add --force: the workers will log that the "
            "frontier was removed"
        )
    view.wait_until_freed()
    # Only a compact filter needs this; meta, which names the filter, is already deleted.
    step = filter_step(view.server, view.keys.dupefilter, "compact")
    while problem != b"shared" and "seen" not in keep and step("sweep"):
        pass
    sweep_slots = register(view.server, "sweep")
    while sweep_slots(view.keys.all(), []):
        pass
    return what.decode("utf-8", "replace") if problem == b"shared" else ""


def _exported(view: View) -> InspectionError:
    return InspectionError(
        f"The frontier of spider {view.spider!r} is being exported, and the export would miss requests that "
        "move. Try again after the export"
    )


def in_steps(values: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield *values* in lists of the length of a step."""
    rest = iter(values)
    while part := list(islice(rest, STEP)):
        yield part
