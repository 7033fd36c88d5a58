"""The requests and seeds that were set aside: look at them, try them again, forget them.

It waits for Redis, so it is for scripts and shells, not for a spider's callbacks.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from typing_extensions import Self

from . import connection
from .components import load_keys, load_queue_class
from .errors import SettingError
from .keys import Keys
from .scripts import register
from .settings import FrontierSettings

#: Entries that are read, or moved, in one step.
STEP = 200


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

    @classmethod
    def parse(cls, entry: bytes) -> FailedRequest:
        """Return what *entry*, a JSON object in UTF-8, says.

        What cannot be read becomes the data of an entry of the kind ``unknown``, which says so as its reason.
        """
        try:
            fields = json.loads(entry.decode("utf-8", "surrogateescape"))
            data = fields["data"].encode("utf-8", "surrogateescape") if "data" in fields else None
            if data is None:
                data = bytes.fromhex(fields["data_hex"])
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
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            unread = "this entry of the failed list cannot be read"
            return cls("", "unknown", unread, 0, "", 0, 0, "", "", entry, entry)


class FailedRequests:
    """The failed list of one spider. A crawl may be under way.

    :param server: a redis-py client.
    :param keys: the keys of the spider's frontier.
    :param discipline: which ``lua/queue_<discipline>.lua`` its queue follows.
    :param most: how many entries the list keeps.
    """

    def __init__(
        self, server: Any, keys: Keys, discipline: str = "priority", most: int = FrontierSettings.max_failed
    ) -> None:
        self._server = server
        self._keys = keys
        self._most = most
        parts = ("keys", f"queue_{discipline}", "seeds", "leases", "requeue")
        self._requeue = register(server, *parts)

    @classmethod
    def from_settings(cls, settings: Any, spider: str, redis_key: str | None = None) -> Self:
        """Return the failed list of the spider called *spider*.

        :param settings: the project's, as ``scrapy.utils.project.get_project_settings()`` returns them.
        :param spider: its name.
        :param redis_key: the key of its seeds, if the spider has one of its own.
        :raises SettingError: if a setting has a value that it may not have.
        """
        read = FrontierSettings.from_settings(settings)
        server = connection.get_client(settings)
        keys = load_keys(read, server, spider, redis_key)
        discipline = getattr(load_queue_class(read), "discipline", None)
        if discipline is None:
            raise SettingError(
                f"SCHEDULER_QUEUE_CLASS is {read.queue_class!r}, to which nothing can be put back: it pushes "
                "and pops by itself"
            )
        return cls(server, keys, discipline, read.max_failed)

    def __len__(self) -> int:
        """Return how many entries there are. Waits for Redis."""
        return int(self._server.llen(self._keys.failed))

    def __iter__(self) -> Iterator[FailedRequest]:
        """Yield the entries, the oldest first. Waits for Redis at every 200th."""
        for start in range(0, len(self), STEP):
            for entry in self._server.lrange(self._keys.failed, start, start + STEP - 1):
                yield FailedRequest.parse(entry)

    def count_by_reason(self) -> Counter[str]:
        """Return how many there are of each reason, the whole text of which is the key."""
        return Counter(failed.reason for failed in self)

    def requeue(self, reason: str | None = None, id: str | None = None) -> int:
        """Put entries back to where they stood, as if they had never been handed out.

        They are not taken for duplicates. If no crawl is under way, the next one begins with them.

        :param reason: only those whose reason begins so; by default, all.
        :param id: only the one with this id.
        :return: how many there were.
        :raises redis.exceptions.RedisError: if Redis does not answer, or a key has a type that it should not
            have; then some may be back already, none twice.
        """
        return self._take(self._chosen(reason, id), again=True)

    def forget(self, reason: str | None = None, id: str | None = None) -> int:
        """Remove entries for good; their URLs still count as seen.

        :param reason: only those whose reason begins so; by default, all.
        :param id: only the one with this id.
        :return: how many there were.
        :raises redis.exceptions.RedisError: if Redis does not answer.
        """
        return self._take(self._chosen(reason, id), again=False)

    def _chosen(self, reason: str | None, wanted: str | None) -> Callable[[FailedRequest], bool]:
        def chosen(failed: FailedRequest) -> bool:
            return failed.reason.startswith(reason or "") and wanted in (None, failed.id)

        return chosen

    def _take(self, chosen: Callable[[FailedRequest], bool], again: bool) -> int:
        taken, start, left = 0, 0, len(self)
        # No more than there are now: what fails again meanwhile is not taken again.
        while left > 0:
            entries = self._server.lrange(self._keys.failed, start, start + min(STEP, left) - 1)
            if not entries:
                break
            left -= len(entries)
            picked = [failed for failed in map(FailedRequest.parse, entries) if chosen(failed)]
            if again:
                # Who wrote an entry that cannot be read knows where it belongs.
                picked = [failed for failed in picked if failed.kind != "unknown"]
            start += len(entries) - len(picked)
            if picked:
                taken += self._move(picked, again)
        return taken

    def _move(self, picked: list[FailedRequest], again: bool) -> int:
        fields = [part for f in picked for part in (f.entry, f.origin, f.score, f.data)]
        arguments = ("requeue", self._most, int(again), len(picked), *fields)
        return int(self._requeue(keys=self._keys.all(), args=arguments))
