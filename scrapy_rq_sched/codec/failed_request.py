"""An entry of the failed list: a JSON object, as ``lua/failures.lua`` writes it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from typing_extensions import Self

#: No time, and no count, of an entry is as large.
MOST = 10**11


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """An entry of the failed list.

    :param id: unlike that of any other entry; empty if somebody else wrote it.
    :param kind: ``request``, or ``seed``; ``unknown`` if the entry cannot be read.
    :param reason: why it was set aside.
    :param time: when, in seconds since 1970, by the server's clock.
    :param worker: who set it aside, or who died with it.
    :param deliveries: how often it was handed out to a worker.
    :param deaths: how many workers died while they had it.
    :param history: ``died:<worker>@<second>`` for each death, ``refused:<worker>@<second>`` once a worker.
    :param traceback: of the exception that was the reason, if one was.
    :param data: what was queued or seeded, as it was.
    :param entry: the whole entry, as it is in Redis.
    :param origin: where it goes if it is tried again: the type of the seeds' key, or ``request``.
    :param score: its score there.
    :param slot: the slot of a request; empty if no worker knew it.
    """

    id: str
    kind: str
    reason: str
    time: int
    worker: str
    deliveries: int
    deaths: int
    history: str
    traceback: str
    data: bytes
    entry: bytes
    origin: str = "request"
    score: str = "0"
    slot: str = ""

    @classmethod
    def parse(cls, entry: bytes) -> Self:
        """Return what *entry*, a JSON object in UTF-8, says.

        What cannot be read becomes the data of an entry of the kind ``unknown``, which says so as its reason.
        """
        try:
            fields = json.loads(entry.decode("utf-8", "surrogateescape"))
            data = fields["data"].encode("utf-8", "surrogateescape") if "data" in fields else None
            if data is None:
                data = bytes.fromhex(fields["data_hex"])
            numbers = [fields["time"], fields["deaths"], fields.get("deliveries", 0)]
            if not all(isinstance(n, (int, float)) and 0 <= n < MOST for n in numbers):
                raise ValueError("a number is not valid")
            if not math.isfinite(float(fields.get("score", "0"))) or " " in str(fields.get("score")):
                raise ValueError("its score is not a number")
            return cls(
                str(fields.get("id", "")),
                str(fields["kind"]),
                str(fields["reason"]),
                int(fields["time"]),
                str(fields["worker"]),
                int(fields.get("deliveries", 0)),
                int(fields["deaths"]),
                str(fields["history"]),
                str(fields.get("traceback", "")),
                data,
                entry,
                str(fields.get("key_type", "list")) if fields["kind"] == "seed" else "request",
                str(fields.get("score", "0")),
                str(fields.get("slot", "")).replace(" ", ""),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
            unread = "this entry of the failed list cannot be read"
            return cls("", "unknown", unread, 0, "", 0, 0, "", "", entry, entry)
