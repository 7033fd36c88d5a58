"""What a request needs of a worker, ``meta["needs"]``, and the names of lanes and places made of it.

A *lane* has the waiting requests with the same needs. Its name is the names of these, in alphabetical order,
with ``|`` between them. A *place* is where requests of a slot wait: ``<slot>``, or ``<slot>|<lane>``.
``lua/slots/lanes.lua`` has the lanes in Redis.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any
from urllib.parse import unquote

from scrapy import Request

from .slots import slot_name

#: The field of ``meta``.
NEEDS = "needs"


def as_names(value: Any) -> frozenset[str]:
    """Return the names in *value*: a name, or a list, tuple or set of names.

    :raises ValueError: if it is anything else, or if a name is too long for a key.
    """
    names = [value] if isinstance(value, str) else value
    is_valid = isinstance(names, (list, tuple, set, frozenset)) and all(
        isinstance(name, str) and name.strip() and "~" not in slot_name(name) for name in names
    )
    if not is_valid:
        raise ValueError(f"must be a name or a list of names, not {value!r}")
    return frozenset(name.strip() for name in names)


def needs_of(request: Request) -> frozenset[str]:
    """Return what *request* needs of a worker.

    :raises ValueError: if ``meta["needs"]`` is neither a name nor a list of names.
    """
    value = request.meta.get(NEEDS)
    return as_names(value) if value is not None else frozenset()


def lane_of(needs: Collection[str]) -> str:
    """Return the name of the lane of requests with these *needs*; empty if there are none."""
    return "|".join(sorted(map(slot_name, needs)))


def needs_in(lane: str) -> frozenset[str]:
    """Return the needs of *lane*, as the user gave them."""
    return frozenset(map(unquote, filter(None, lane.split("|"))))


def shown(needs: Iterable[str]) -> str:
    """Return names of needs as text for a message, such as ``'browser' and 'gpu'``."""
    names = sorted(map(repr, needs))
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 2 else names)


def place_of(slot: str, lane: str) -> str:
    """Return the place of the requests of *slot* in *lane*."""
    return f"{slot}|{lane}" if lane else slot


def split_place(place: str) -> tuple[str, str]:
    """Return the slot and the lane of *place*."""
    slot, _, lane = place.partition("|")
    return slot, lane
