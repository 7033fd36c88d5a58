"""Read the waiting requests for an export."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..connection import server_of
from ..frontier.replies import lease_value
from .queues import Queues
from .steps import read_list, scan
from .view import View


def export_waiting(view: View) -> Iterator[tuple[str, list[Any]]]:
    """Yield the waiting requests of *view*'s frontier, a step at a time, with the kind of their line."""
    server, keys = server_of(view.server, view.keys.requests), view.keys
    if view.is_sorted:
        for found in scan(server, "zscan", keys.requests):
            yield "waiting", flat(found)
    else:
        for entries in read_list(server, keys.requests, _reads_from_tail(view)):
            yield "waiting", [part for entry in entries for part in (b"0", entry)]
    # Slots that appear during the export hold no request that was there before it.
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
    # A FifoQueue is pushed at its head, and read from there; a LifoQueue is pushed and popped at its head, so
    # it is read from its tail.
    return bool(view.queue_class.discipline == "lifo")


def flat(found: list[tuple[bytes, float]]) -> list[bytes]:
    """Return score, member, score, member, …, with the exact text of each score."""
    return [part for member, score in found for part in (repr(score).encode(), member)]
