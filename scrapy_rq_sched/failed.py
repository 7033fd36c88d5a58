"""The requests and seeds that were set aside: look at them, try them again, forget them.

It waits for Redis, so it is for scripts and shells, not for a spider's callbacks.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from typing_extensions import Self

from . import connection, serializers
from .codec.failed_request import FailedRequest
from .codec.seeds import url_in, url_of_seed
from .engine.components import load_keys, load_queue_class
from .errors import InspectionError, PayloadError, SettingError
from .frontier.replies import lease_value
from .frontier.scripts import register
from .keys import Keys
from .serializers import faithful
from .settings import FrontierSettings

#: Entries that are read, or moved, in one step: so many take Redis some milliseconds.
STEP = 100


class FailedRequests:
    """The failed list of one spider. A crawl may be under way.

    :param server: a redis-py client.
    :param keys: the keys of the spider's frontier.
    :param discipline: which ``lua/queue/<discipline>.lua`` its queue follows.
    :param most: how many entries the list keeps.
    :param serializer: what reads requests, for their URLs; None if nobody may.
    :param encoding: of seeds.
    """

    def __init__(
        self,
        server: Any,
        keys: Keys,
        discipline: str = "priority",
        most: int = FrontierSettings.max_failed,
        serializer: serializers.Serializer | None = None,
        encoding: str = FrontierSettings.encoding,
    ) -> None:
        self._server = server
        self._keys = keys
        self._most = most
        self._serializer = serializer
        self._encoding = encoding
        self._requeue = register(server, "requeue", discipline)

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
                "Entries of the failed list cannot be put back: SCHEDULER_QUEUE_CLASS is "
                f"{read.queue_class!r}, which pushes and pops by itself"
            )
        serializer = serializers.load_serializer(read.serializer)
        return cls(server, keys, discipline, read.max_failed, serializer, read.encoding)

    def __len__(self) -> int:
        """Return how many entries there are. Waits for Redis."""
        return int(self._server.llen(self._keys.failed))

    def __iter__(self) -> Iterator[FailedRequest]:
        """Yield the entries, the oldest first. Waits for Redis at every 100th."""
        start, before, left = 0, b"", len(self)
        while left > 0:
            start, entries = self._read(start, before, min(STEP, left))
            if not entries:
                return
            yield from map(FailedRequest.parse, entries)
            start, before, left = start + len(entries), entries[-1], left - len(entries)

    def latest(self, count: int) -> list[FailedRequest]:
        """Return the latest *count* entries, the oldest of them first. Waits for Redis."""
        found: list[FailedRequest] = []
        for end in range(1, count + 1, STEP):
            last = min(end + STEP - 1, count)
            entries = self._server.lrange(self._keys.failed, -last, -end)
            found[:0] = map(FailedRequest.parse, entries)
            if len(entries) <= last - end:
                break
        return found

    def count_by_reason(self) -> Counter[str]:
        """Return how many there are of each reason, the whole text of which is the key."""
        return Counter(failed.reason for failed in self)

    def chosen(
        self, reason: str | None = None, id: str | None = None, url: str | None = None, exactly: bool = False
    ) -> Iterator[FailedRequest]:
        """Yield those entries that :meth:`forget` would take, the oldest first. Waits for Redis.

        :param reason: only those whose reason begins so; by default, all.
        :param id: only the one with this id.
        :param url: only those of a URL like this, where ``*`` stands for anything, and all else for itself.
        :param exactly: whether the reason is all of *reason*, and does not only begin so.
        """
        return filter(self._filter(reason, id, url, exactly), self)

    def requeue(
        self, reason: str | None = None, id: str | None = None, url: str | None = None, exactly: bool = False
    ) -> int:
        """Put entries back to where they stood, as if they had never been handed out.

        They are not taken for duplicates. If no crawl is under way, the next one begins with them.

        :param reason: only those whose reason begins so; by default, all.
        :param id: only the one with this id.
        :param url: only those of a URL like this, where ``*`` stands for anything, and all else for itself.
        :param exactly: whether the reason is all of *reason*, and does not only begin so.
        :return: how many there were.
        :raises InspectionError: if the frontier is exported just now.
        :raises redis.exceptions.RedisError: if Redis does not answer, or a key has a type that it should not
            have; then some may be back already, none twice.
        """
        return self._take(self._filter(reason, id, url, exactly), again=True)

    def forget(
        self, reason: str | None = None, id: str | None = None, url: str | None = None, exactly: bool = False
    ) -> int:
        """Remove entries for good; their URLs still count as seen.

        :param reason: only those whose reason begins so; by default, all.
        :param id: only the one with this id.
        :param url: only those of a URL like this, where ``*`` stands for anything, and all else for itself.
        :param exactly: whether the reason is all of *reason*, and does not only begin so.
        :return: how many there were.
        :raises InspectionError: if the frontier is exported just now.
        :raises redis.exceptions.RedisError: if Redis does not answer.
        """
        return self._take(self._filter(reason, id, url, exactly), again=False)

    def url_of(self, failed: FailedRequest) -> str:
        """Return the URL of the entry *failed*; empty if it cannot be known."""
        if failed.kind == "seed":
            return url_of_seed(failed.data.decode(self._encoding, "replace").strip())
        if failed.kind == "request" and self._serializer is not None:
            with suppress(PayloadError):
                return url_in(faithful.load(self._serializer, failed.data))
        return ""

    def _filter(
        self, reason: str | None, wanted: str | None, url: str | None, exactly: bool
    ) -> Callable[[FailedRequest], bool]:
        # Not at the top: no crawl imports what looks into it from outside.
        from .codec.patterns import Pattern

        pattern = None if url is None else Pattern(url)

        def chosen(failed: FailedRequest) -> bool:
            if not failed.reason.startswith(reason or "") or wanted not in (None, failed.id):
                return False
            if exactly and reason not in (None, failed.reason):
                return False
            if pattern is None:
                return True
            its_url = self.url_of(failed)
            return bool(its_url) and pattern.matches(its_url)

        return chosen

    def _read(self, start: int, before: bytes, count: int) -> tuple[int, list[bytes]]:
        """Return *count* entries, and where the first of them is: at *start*, unless the list has shifted.

        :param before: the entry ahead of it, if *start* is not 0.
        """
        key = self._keys.failed
        entries = self._server.lrange(key, max(0, start - 1), start + count - 1)
        if not start:
            return start, entries
        if entries and entries[0] == before:
            return start, entries[1:]
        # A crawl has dropped the oldest; that one, too, if it is not found.
        place = self._server.lpos(key, before)
        start = 0 if place is None else place + 1
        return start, self._server.lrange(key, start, start + count - 1)

    def _take(self, chosen: Callable[[FailedRequest], bool], again: bool) -> int:
        taken, start, before, left = 0, 0, b"", len(self)
        # No more than there are now: what fails again meanwhile is not taken again.
        while left > 0:
            start, entries = self._read(start, before, min(STEP, left))
            if not entries:
                break
            left -= len(entries)
            picked, others = [], []
            for place, failed in enumerate(map(FailedRequest.parse, entries), start):
                # Who wrote an entry that cannot be read knows where it belongs.
                if chosen(failed) and not (again and failed.kind == "unknown"):
                    picked.append((place, failed))
                else:
                    others.append(failed.entry)
            taken += self._move(picked, again)
            start += len(others)
            before = others[-1] if others else before
        return taken

    def _move(self, picked: list[tuple[int, FailedRequest]], again: bool) -> int:
        moved = 0
        while picked:
            found, handled = self._move_some(picked, moved, again)
            if found < 0:
                raise InspectionError(
                    f"The frontier of spider {self._keys.spider!r} is being exported. Try again when the "
                    "export is finished"
                )
            moved += found
            picked = picked[handled:]
        return moved

    def _move_some(self, picked: list[tuple[int, FailedRequest]], moved: int, again: bool) -> list[int]:
        values = [(n - moved, f.entry, lease_value(f.origin, f.score, f.data, f.slot)) for n, f in picked]
        fields = [part for value in values for part in value]
        # What no entry can be: nobody knows it before.
        marker = f"taken:{secrets.token_hex(16)}"
        arguments = ("requeue", self._most, int(again), marker, len(picked), *fields)
        reply: list[int] = self._requeue(keys=self._keys.all(), args=arguments)
        return reply
