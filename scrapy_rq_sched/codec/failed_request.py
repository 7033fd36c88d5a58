"""Read an entry of the failed list: a JSON object that ``lua/store/failures.lua`` has written."""

from __future__ import annotations

import math
from dataclasses import dataclass

from typing_extensions import Self

from . import json_bounds
from .error_kinds import error_of

#: A limit that no valid time or count of an entry reaches.
MOST = 10**11


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """An entry of the failed list.

    :param id: the unique id of the entry; empty if another program wrote the entry.
    :param kind: ``request`` or ``seed``; ``unknown`` if the entry cannot be read.
    :param reason: why the request or seed was set aside.
    :param time: the time when it was set aside, in seconds since 1970, by the server's clock.
    :param worker: the worker that set it aside, or that died while it held the lease.
    :param deliveries: how often it was leased to a worker.
    :param deaths: how many workers died after they had begun it.
    :param history: ``died:<worker>@<second>`` for each death; ``refused:<worker>@<second>`` for each worker
        that refused it.
    :param traceback: the traceback, if an exception was the reason.
    :param data: the unchanged request or seed; or the beginning of a seed that was too large.
    :param entry: the whole entry, as it is in Redis.
    :param origin: where it goes if it is tried again: ``request``, or the type of the seeds' key.
    :param score: its score in the queue, or among the seeds.
    :param slot: the slot of a request; empty if no worker knew the slot.
    :param size: the size of a seed in bytes, if only its beginning was kept; otherwise 0.
    :param entry_size: the size of the entry in Redis, in bytes, if its long fields are cut here; otherwise 0.
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
    size: int = 0
    entry_size: int = 0

    @property
    def error(self) -> str:
        """The kind of error: the reason without the parts that differ between requests."""
        return error_of(self.reason)

    @property
    def can_go_back(self) -> bool:
        """Whether the request or seed can be put back: its place is known, and it was kept whole."""
        return self.kind != "unknown" and not self.size

    @classmethod
    def parse(cls, entry: bytes, entry_size: int = 0) -> Self:
        """Return the entry for *entry*, a JSON object in UTF-8.

        :param entry_size: its size in Redis, if its long fields are cut.

        If *entry* cannot be read, the result has the kind ``unknown``, a reason that tells so, and *entry* as
        its data.
        """
        try:
            fields = json_bounds.loads(entry.decode("utf-8", "surrogateescape"))
            data = fields["data"].encode("utf-8", "surrogateescape") if "data" in fields else None
            if data is None:
                data = bytes.fromhex(fields["data_hex"])
            numbers = [fields["time"], fields["deaths"], fields.get("deliveries", 0), fields.get("size", 0)]
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
                int(fields.get("size", 0)),
                entry_size,
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
            unread = "this entry of the failed list cannot be read"
            return cls("", "unknown", unread, 0, "", 0, 0, "", "", entry, entry, entry_size=entry_size)
