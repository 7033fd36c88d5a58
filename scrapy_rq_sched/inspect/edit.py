"""Change what a frontier has: what waits, in which order, what was seen; or clear all of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from typing import Any

from ..errors import InspectionError, UnserializableRequestError
from ..frontier.scripts import filter_step, register
from ..serializers import faithful
from .entries import STEP, Entry, Reader
from .queues import Queues
from .view import View

#: Whether an entry is meant.
Chosen = Callable[[Entry], bool]

#: What :func:`clear` may be told to keep.
KEEPABLE = ("seeds", "failed", "seen")


class Waiting:
    """The waiting requests of *view*'s frontier, to be changed.

    :raises InspectionError: if there is no frontier, or if its queue cannot be looked into.
    """

    def __init__(self, view: View) -> None:
        view.require()
        self._view = view
        self._reader = Reader(view)
        self._queues = Queues(view)
        #: What could not be written with another priority, and why.
        self.unwritable: list[str] = []
        self._rewrite = register(view.server, "rewrite", "priority")
        self._sift = register(view.server, "sift")

    def find(self, chosen: Chosen, needle: bytes | None = None) -> Iterator[list[Entry]]:
        """Yield what waits and is *chosen*, a step at a time; empty lists, too.

        :param needle: what all that are chosen have in them as bytes, if that is known.
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
        """Remove what is *chosen*, a step at a time, and yield what was. It still counts as seen.

        Of a list all entries are turned round once, so that no step is long: nobody may take any meanwhile.

        :param before: told what is about to be removed.
        :param ends: asked whether to remove no more: a list is turned all the way round nevertheless.
        :raises InspectionError: if the queue is a list, and workers take from it; or if it is exported.
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
        """Give what is *chosen* another priority, a step at a time, and yield what was given it.

        Equal priorities keep the order of their arrival.

        :raises InspectionError: if the queue has no priorities, or if it is exported.
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
        # What it leads to, a retry say, has its priority, too.
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
                f"The queue of spider {view.spider!r} is a list, from whose middle nothing can be taken "
                f"while workers are at it. First: scrapy frontier pause {view.spider}, until nothing is "
                "leased"
            )

    def _sift_list(
        self, slot: str, chosen: Chosen, ends: Callable[[], bool], before: Callable[[list[Entry]], None]
    ) -> Iterator[list[Entry]]:
        key, server = self._view.keys.queue(slot), self._view.server
        left = server.llen(key)
        while left > 0:
            tail = server.lrange(key, -min(STEP, left), -1)[::-1]
            entries = [self._reader.request(data, None, slot) for data in tail]
            # Turned half round it would be crawled in another order: so all the way, whoever interrupts.
            gone = [not ends() and chosen(entry) for entry in entries]
            before([entry for entry, is_gone in zip(entries, gone, strict=True) if is_gone])
            arguments: list[Any] = [len(entries)]
            for entry, is_gone in zip(entries, gone, strict=True):
                arguments += [entry.data, int(not is_gone)]
            done = self._sift(self._view.keys.of_queue(slot), arguments)
            if done == -1:
                raise _exported(self._view)
            if done:  # else somebody has taken some, and the tail is read again
                left -= len(entries)
                yield [entry for entry, is_gone in zip(entries, gone, strict=True) if is_gone]
            left = min(left, server.llen(key))


def forget(view: View, fingerprints: Iterable[str]) -> int:
    """Have requests count as not seen, and not as start requests that this crawl has had.

    :param fingerprints: theirs, as :class:`Fingerprinter` makes them.
    :return: how many of them were seen.
    """
    script = register(view.server, "forget", dupefilter=view.dupefilter)
    forgotten = 0
    for part in in_steps(fingerprints):
        forgotten += int(script(view.keys.all(), [len(part), *part]))
    return forgotten


def clear(view: View, force: bool = False, keep: Iterable[str] = ()) -> str:
    """Remove the frontier. Items and statistics stay.

    :param force: whether to do so though workers are alive; they say so in their logs.
    :param keep: what of :data:`KEEPABLE` stays.
    :return: whose the filter is as well, so that it was not cleared; empty if nobody's.
    :raises InspectionError: if workers are alive, unless *force*.
    """
    script = register(view.server, "clear")
    keep = set(keep)
    flags = [int(name in keep) for name in KEEPABLE]
    problem, what = script(view.keys.all(), [int(force), *flags, view.keys.prefix])
    if problem == b"alive":
        raise InspectionError(
            f"{int(what)} workers are at the frontier of spider {view.spider!r}. First: scrapy frontier stop "
            f"{view.spider}; or --force, and their logs will say that it is gone"
        )
    view.wait_until_freed()
    # Only a compact one has what is to be swept, and there is no meta any more that would tell.
    step = filter_step(view.server, view.keys.dupefilter, "compact")
    while problem != b"shared" and "seen" not in keep and step("sweep"):
        pass
    sweep_slots = register(view.server, "sweep")
    while sweep_slots(view.keys.all(), []):
        pass
    return what.decode("utf-8", "replace") if problem == b"shared" else ""


def _exported(view: View) -> InspectionError:
    return InspectionError(
        f"The frontier of spider {view.spider!r} is being exported, which what moves would escape. Try again "
        "when that is over"
    )


def in_steps(values: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield lists of as many *values* as a step may change."""
    rest = iter(values)
    while part := list(islice(rest, STEP)):
        yield part
