"""An event: as Redis keeps it, and as a person reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..codec.error_kinds import error_of
from ..codec.event_types import ALARMING, TEXTS, WITH_URL
from ..codec.values import text_of
from ..errors import one_line

#: The version of an event's fields that this code knows.
VERSION = 1
#: The fields that every event has. All others are its details.
_COMMON = ("v", "id", "time", "type", "spider", "worker", "number")


@dataclass(frozen=True)
class Event:
    """A change of a fleet, recorded by the atomic step that made it.

    :param id: the id of the entry in the stream. Ids are unique and ascending.
    :param time: seconds since 1970, by the server's clock.
    :param type: such as ``worker_joined``: see ``docs/events.md``.
    :param spider: the spider's name.
    :param worker: the worker's id; empty if the event concerns the whole fleet.
    :param details: the further fields of this type.
    :param number: its number in the stream, from 1; 0 if it is unknown.
    """

    id: str
    time: float
    type: str
    spider: str
    worker: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    number: int = 0

    @classmethod
    def parse(cls, name: bytes, fields: Mapping[bytes, bytes], spider: str) -> Event:
        """Return the event of an entry of the stream; its type is ``unknown`` if it cannot be read.

        :param name: the entry's id.
        :param fields: the entry's fields.
        :param spider: the spider that the stream belongs to.
        """
        text = text_of(fields.get(b"event"))
        try:
            decoded = json.loads(text, parse_constant=_refuse)
            time = float(decoded["time"])
            kind = str(decoded["type"])
            number = int(decoded.get("number", 0))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            milliseconds = int(name.partition(b"-")[0])
            return cls(name.decode(), milliseconds / 1000, "unknown", spider, "", {"text": text})
        details = {key: value for key, value in decoded.items() if key not in _COMMON}
        return cls(
            *(name.decode(), time, kind, str(decoded.get("spider", spider)), str(decoded.get("worker", ""))),
            *(details, number),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the fields of the JSON object that ``--json`` prints and a webhook gets."""
        return {
            "v": VERSION,
            "id": self.id,
            "number": self.number,
            "time": self.time,
            "type": self.type,
            "spider": self.spider,
            "worker": self.worker,
            "text": self.text,
            **{name: value for name, value in self.details.items() if name not in (*_COMMON, "text")},
        }

    @property
    def text(self) -> str:
        """The event as a line of text."""
        template = (WITH_URL if self.details.get("url") else {}).get(self.type) or TEXTS.get(self.type)
        if template is None:  # the type comes from Redis: never use it as a template
            return one_line(self.type)
        return one_line(template.format_map(_Details({**self.details, "worker": self.worker})))

    @property
    def sort(self) -> tuple[str, ...]:
        """What equal events have in common: two requests that are set aside are equal if their error is."""
        if self.type == "request_set_aside":
            return self.type, str(self.details.get("kind", "")), error_of(str(self.details.get("reason", "")))
        return self.type, self.worker, self.text

    @property
    def is_alarming(self) -> bool:
        """Whether the event needs somebody's attention."""
        return self.type in ALARMING


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a JSON number")


class _Details(dict[str, Any]):
    """The values of a template: a question mark for a detail that another version did not record."""

    def __missing__(self, name: str) -> str:
        return "?"
