"""What a request needs of a worker, ``meta["needs"]``, and the names of lanes and places made of it.

A *lane* has the waiting requests with the same needs. Its name is their names together (see ``names.py``).
A *place* is where requests of a slot wait: ``<slot>``, or ``<slot>|<lane>``. ``lua/slots/lanes.lua`` has the
lanes in Redis.
"""

from __future__ import annotations

from scrapy import Request

from .names import names_of

#: The field of ``meta``.
NEEDS = "needs"


def needs_of(request: Request) -> frozenset[str]:
    """Return what *request* needs of a worker.

    :raises ValueError: if ``meta["needs"]`` is neither a name nor a list of names.
    """
    return names_of(request.meta, NEEDS)


def place_of(slot: str, lane: str) -> str:
    """Return the place of the requests of *slot* in *lane*."""
    return f"{slot}|{lane}" if lane else slot


def split_place(place: str) -> tuple[str, str]:
    """Return the slot and the lane of *place*."""
    slot, _, lane = place.partition("|")
    return slot, lane
