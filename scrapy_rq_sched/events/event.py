"""An event, as Redis has it, and as a person reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import one_line

#: The version of an event's fields that this code knows.
VERSION = 1
#: What every event has; all else is in its details.
_COMMON = ("v", "id", "time", "type", "spider", "worker")

#: What happened, in words, by type. ``lua/events.lua`` is told these types.
TEXTS = {
    "crawl_started": "the crawl has started",
    "crawl_finished": "the crawl is finished: {pages} pages, {failed} requests set aside",
    "crawl_stalled": "no page for {seconds} s, though {waiting} requests wait",
    "crawl_going_on": "the crawl goes on",
    "worker_joined": "worker {worker} has joined",
    "worker_left": "worker {worker} has left",
    "worker_lost": "worker {worker} is lost: it has not been heard of, and what it held goes to the others",
    "paused": "an operator has paused the crawl",
    "draining": "an operator has drained the crawl",
    "resumed": "an operator has had the crawl go on",
    "stopped": "an operator has stopped the fleet",
    "limit_reached": "the fleet closes: {limit} is reached",
    "request_set_aside": "a {kind} is set aside: {reason}",
    "slot_blocked": "slot {slot} is blocked for {seconds} s",
    "slot_free": "slot {slot} is not blocked any more",
    "queue_full": "as many requests wait as FRONTIER_MAX_WAITING allows ({max_waiting})",
    "queue_has_room": "the queue has room again",
    "redis_full": "Redis is out of memory",
    "redis_has_room": "Redis has room again",
}
#: What needs somebody's attention.
ALARMING = frozenset(
    ("crawl_stalled", "worker_lost", "limit_reached", "request_set_aside", "queue_full", "redis_full")
)


@dataclass(frozen=True)
class Event:
    """What happened to a fleet, told by the atomic step in which it happened.

    :param id: of the entry in the stream: unique, and in the order in which things happened.
    :param time: seconds since 1970, by the server's clock.
    :param type: such as ``worker_joined``: see ``docs/events.md``.
    :param spider: the spider's name.
    :param worker: whom it concerns; empty if it concerns all.
    :param details: what else there is to say of this type.
    """

    id: str
    time: float
    type: str
    spider: str
    worker: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, name: bytes, fields: Mapping[bytes, bytes], spider: str) -> Event:
        """Return the event of a stream's entry; what somebody else has put there is of type ``unknown``.

        :param name: the entry's id, and :param fields: its fields.
        :param spider: whose stream it is.
        """
        text = fields.get(b"event", b"").decode("utf-8", "replace")
        try:
            said = json.loads(text, parse_constant=_refuse)
            time = float(said["time"])
            kind = str(said["type"])
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            milliseconds = int(name.partition(b"-")[0])
            return cls(name.decode(), milliseconds / 1000, "unknown", spider, "", {"text": text})
        details = {key: value for key, value in said.items() if key not in _COMMON}
        return cls(
            name.decode(), time, kind, str(said.get("spider", spider)), str(said.get("worker", "")), details
        )

    def as_dict(self) -> dict[str, Any]:
        """Return it as it is printed for machines, and sent to a webhook."""
        return {
            "v": VERSION,
            "id": self.id,
            "time": self.time,
            "type": self.type,
            "spider": self.spider,
            "worker": self.worker,
            "text": self.text,
            **{name: value for name, value in self.details.items() if name not in (*_COMMON, "text")},
        }

    @property
    def text(self) -> str:
        """What happened, in a line of words."""
        template = TEXTS.get(self.type)
        if template is None:  # it comes from Redis, and is no template
            return one_line(self.type)
        return one_line(template.format_map(_Details({**self.details, "worker": self.worker})))

    @property
    def is_alarming(self) -> bool:
        """Whether it needs somebody's attention."""
        return self.type in ALARMING


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number that JSON has")


class _Details(dict[str, Any]):
    """What an older or a newer version does not say is a question mark."""

    def __missing__(self, name: str) -> str:
        return "?"
