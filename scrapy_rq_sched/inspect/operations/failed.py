"""Open the failed list of a frontier, put its entries back into the queue, or drop them."""

from __future__ import annotations

from typing import Any

from ... import serializers
from ...errors import InspectionError
from ...failed import FailedRequests
from .. import own_keys
from ..view import View
from ..wording import counted
from .operation import Mood, Observer, Operation


def set_aside(view: View, again: bool = False, changes: bool = False) -> tuple[FailedRequests, str]:
    """Return the failed list of *view*'s frontier, and why its URLs cannot be read; empty if they can.

    :param again: whether entries will be put back into the queue.
    :param changes: whether entries will be put back, or removed.
    :raises InspectionError: if entries cannot be put back into this queue, or if ``meta`` names keys that are
        not the frontier's and *changes* is true.
    """
    if again or changes:
        own_keys.require(view)
    # Only putting entries back requires the queue's class; listing and forgetting them does not.
    discipline = view.queue_class.discipline if again else "custom"
    serializer: serializers.Serializer | None
    problem = ""
    try:
        serializer = view.serializer
    except InspectionError as error:
        serializer, problem = None, str(error)
    read = view.settings
    failed = FailedRequests(view.server, view.keys, discipline, read.max_failed, serializer, read.encoding)
    return failed, problem


def requeue_failed(view: View, observer: Observer, **chosen: Any) -> Operation:
    """Put entries back into the queue, or to the seeds.

    :param chosen: the arguments of :meth:`FailedRequests.chosen`.
    """
    failed = open_failed(view, observer, again=True)

    def text(count: int, mood: Mood) -> str:
        return f"{_entries(count, mood)} put back, to be crawled again"

    return Operation(
        text,
        lambda: sum(one.can_go_back for one in failed.chosen(**chosen)),
        lambda: failed.requeue(**chosen),
    )


def drop_failed(view: View, observer: Observer, **chosen: Any) -> Operation:
    """Remove entries for good. The arguments are those of :func:`requeue_failed`."""
    failed = open_failed(view, observer, changes=True)

    def text(count: int, mood: Mood) -> str:
        still = "its URL still counts" if count == 1 else "their URLs still count"
        return f"{_entries(count, mood)} removed for good; {still} as seen"

    return Operation(text, lambda: sum(1 for _ in failed.chosen(**chosen)), lambda: failed.forget(**chosen))


def open_failed(view: View, observer: Observer, again: bool = False, changes: bool = False) -> FailedRequests:
    """Return the failed list as :func:`set_aside`, and warn if its URLs cannot be read."""
    failed, problem = set_aside(view, again, changes)
    if problem:
        observer.warn(f"{problem}. The URLs of these requests are not shown, and --url does not match them")
    return failed


def _entries(count: int, mood: Mood) -> str:
    return f"{counted(count, 'entry', 'entries')} of the failed list {mood.be(count)}"
