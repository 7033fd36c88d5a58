"""The failed list of a frontier that is looked at from outside."""

from __future__ import annotations

from .. import serializers
from ..errors import InspectionError
from ..failed import FailedRequests
from .view import View


def set_aside(view: View, again: bool = False) -> tuple[FailedRequests, str]:
    """Return the failed list of *view*'s frontier, and why its URLs cannot be read; empty if they can.

    :param again: whether entries are to be put back.
    :raises InspectionError: if nothing can be put back to its queue.
    """
    # Only what is put back has to know where to; who forgets, or looks, need not know the queue.
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
