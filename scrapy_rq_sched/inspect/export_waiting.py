"""What an export has of the requests that wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..connection import server_of
from ..frontier.replies import lease_value
from .queues import Queues
from .steps import read_list, scan
from .view import View


def export_waiting(view: View) -> Iterator[tuple[str, list[Any]]]:
    """Yield the requests that wait in *view*'s frontier, a step at a time, by the kind of their line."""
    server, keys = server_of(view.server, view.keys.requests), view.keys
    if view.is_sorted:
        for found in scan(server, "zscan", keys.requests):
            yield "waiting", flat(found)
    else:
        for entries in read_list(server, keys.requests, _reads_from_tail(view)):
            yield "waiting", [part for entry in entries for part in (b"0", entry)]
    # A slot that comes meanwhile has nothing that was there before.
    for slot in [slot for slot in Queues(view).slots() if slot]:
        for values in _of_slot(view, server, slot):
            yield "by slot", values


def _of_slot(view: View, server: Any, slot: str) -> Iterator[list[bytes]]:
    key = view.keys.queue(slot)
    if view.is_sorted:
        for found in scan(server, "zscan", key):
            yield [lease_value("request", repr(score), data, slot) for data, score in found]
    else:
        for entries in read_list(server, key, _reads_from_tail(view)):
            yield [lease_value("request", "0", data, slot) for data in reversed(entries)]


def _reads_from_tail(view: View) -> bool:
    # Of FifoQueue what is pushed comes in at the head, where it is read from; of LifoQueue it comes and
    # goes at the other end.
    return bool(view.queue_class.discipline == "lifo")


def flat(found: list[tuple[bytes, float]]) -> list[bytes]:
    """Return score, member, score, member, …; the text of a score is exact."""
    return [part for member, score in found for part in (repr(score).encode(), member)]
