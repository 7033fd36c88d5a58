"""Open the failed list of a frontier for inspection."""

from __future__ import annotations

from .. import serializers
from ..connection import server_of
from ..errors import InspectionError
from ..failed import FailedRequests
from ..frontier.entries import Entries
from . import own_keys
from .view import View


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


def mark_of(view: View) -> tuple[int, object, object]:
    """Return the length of the failed list of *view*'s frontier, and values that change with the list."""
    key, entries = view.keys.failed, Entries(view.server)
    length = int(server_of(view.server, view.keys.requests).llen(key))
    first, last = (entries.step("failed", key, place, 1, 1000)[1] for place in (0, -1))
    return length, first, last
