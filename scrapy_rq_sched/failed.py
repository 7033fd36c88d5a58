"""The failed list: requests and seeds that were set aside. Read them, try them again, or forget them.

Its methods wait for Redis, so use them in scripts and shells, not in a spider's callbacks.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from typing_extensions import Self

from . import connection, serializers
from .assembly.keys import load_keys
from .assembly.queue import load_queue_class
from .codec.failed_request import FailedRequest
from .codec.seeds import url_at_beginning, url_in, url_of_seed
from .errors import InspectionError, PayloadError, SettingError
from .frontier.entries import LIST, SHOWN, WHOLE, Entries
from .frontier.replies import lease_value
from .frontier.scripts import register
from .keys import Keys
from .serializers import faithful
from .settings import FrontierSettings

#: Entries to read, or to move, in one step. A step takes Redis some milliseconds.
STEP = 100


class FailedRequests:
    """The failed list of one spider. It can be used while a crawl runs.

    :param server: a redis-py client.
    :param keys: the keys of the spider's frontier.
    :param discipline: the name of the script for the spider's queue: ``lua/store/queue/<discipline>.lua``.
    :param most: the maximum number of entries in the list.
    :param serializer: the serializer of requests, to read their URLs; None to read no URLs of requests.
    :param encoding: the encoding of seeds.
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
        self._entries = Entries(server)

    @classmethod
    def from_settings(cls, settings: Any, spider: str, redis_key: str | None = None) -> Self:
        """Return the failed list of the spider called *spider*.

        :param settings: the project's, as ``scrapy.utils.project.get_project_settings()`` returns them.
        :param spider: the spider's name.
        :param redis_key: the spider's attribute ``redis_key``, if it has one.
        :raises SettingError: if a setting has a value that is not valid.
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
        """Return the number of entries. Waits for Redis."""
        return int(self._server.llen(self._keys.failed))

    def __iter__(self) -> Iterator[FailedRequest]:
        """Yield the entries, the oldest first. Waits for Redis once in 100 entries, or more often."""
        start, before, left = 0, b"", len(self)
        while left > 0:
            start, entries = self._read(start, before, min(STEP, left))
            if not entries:
                return
            yield from map(FailedRequest.parse, entries)
            start, before, left = start + len(entries), entries[-1], left - len(entries)

    def latest(self, count: int, whole: bool = False) -> list[FailedRequest]:
        """Return the newest *count* entries, the oldest of these first. Waits for Redis.

        :param whole: whether to read entries of any size. Otherwise long fields are cut, and fewer entries
            are returned if they are many megabytes.
        """
        longest, enough = (WHOLE, WHOLE) if whole else (SHOWN, LIST)
        pieces = self._entries.read("failed", self._keys.failed, -1, count, longest, enough)
        found = [FailedRequest.parse(one.data, one.size if one.is_cut else 0) for one in pieces]
        return found[::-1]

    def count_by_reason(self) -> Counter[str]:
        """Return the number of entries for each reason. The keys are the whole reasons."""
        return Counter(failed.reason for failed in self)

    def chosen(
        self,
        reason: str | None = None,
        id: str | None = None,
        url: str | None = None,
        exactly: bool = False,
        error: str | None = None,
    ) -> Iterator[FailedRequest]:
        """Yield the entries that :meth:`forget` would remove, the oldest first. Waits for Redis.

        :param reason: only entries with a reason that begins with this text; by default, all.
        :param id: only the entry with this id.
        :param url: only entries with a URL that matches this pattern, in which ``*`` stands for any text.
        :param exactly: whether *reason* must be the whole reason, not only its beginning.
        :param error: only entries with this kind of error: see :attr:`FailedRequest.error`.
        """
        return filter(self._filter(reason, id, url, exactly, error), self)

    def requeue(
        self,
        reason: str | None = None,
        id: str | None = None,
        url: str | None = None,
        exactly: bool = False,
        error: str | None = None,
    ) -> int:
        """Put entries back to their places in the queue, or among the seeds, as if they were never leased.

        They are not filtered as duplicates. If no crawl is running, the next crawl begins with them.

        :param reason: only entries with a reason that begins with this text; by default, all.
        :param id: only the entry with this id.
        :param url: only entries with a URL that matches this pattern, in which ``*`` stands for any text.
        :param exactly: whether *reason* must be the whole reason, not only its beginning.
        :param error: only entries with this kind of error: see :attr:`FailedRequest.error`.
        :return: how many entries were put back.
        :raises InspectionError: if the frontier is being exported.
        :raises redis.exceptions.RedisError: if Redis does not answer, or a key has the wrong type. Some
            entries may have been put back by then, each of them once.
        """
        return self._take(self._filter(reason, id, url, exactly, error), again=True)

    def forget(
        self,
        reason: str | None = None,
        id: str | None = None,
        url: str | None = None,
        exactly: bool = False,
        error: str | None = None,
    ) -> int:
        """Delete entries. Their URLs still count as seen.

        :param reason: only entries with a reason that begins with this text; by default, all.
        :param id: only the entry with this id.
        :param url: only entries with a URL that matches this pattern, in which ``*`` stands for any text.
        :param exactly: whether *reason* must be the whole reason, not only its beginning.
        :param error: only entries with this kind of error: see :attr:`FailedRequest.error`.
        :return: how many entries were deleted.
        :raises InspectionError: if the frontier is being exported.
        :raises redis.exceptions.RedisError: if Redis does not answer.
        """
        return self._take(self._filter(reason, id, url, exactly, error), again=False)

    def url_of(self, failed: FailedRequest) -> str:
        """Return the URL of the entry *failed*; empty if it cannot be read."""
        if failed.entry_size or failed.size:
            url = url_at_beginning(failed.data)
            if url:
                return url
        if failed.kind == "seed":
            return url_of_seed(failed.data.decode(self._encoding, "replace").strip())
        if failed.kind == "request" and self._serializer is not None:
            with suppress(PayloadError):
                return url_in(faithful.load(self._serializer, failed.data))
        return ""

    def _filter(
        self, reason: str | None, wanted: str | None, url: str | None, exactly: bool, error: str | None
    ) -> Callable[[FailedRequest], bool]:
        # Not at the top: a worker does not need this module.
        from .codec.patterns import Pattern

        pattern = None if url is None else Pattern(url)

        def chosen(failed: FailedRequest) -> bool:
            if not failed.reason.startswith(reason or "") or wanted not in (None, failed.id):
                return False
            if exactly and reason not in (None, failed.reason):
                return False
            if error not in (None, failed.error):
                return False
            if pattern is None:
                return True
            its_url = self.url_of(failed)
            return bool(its_url) and pattern.matches(its_url)

        return chosen

    def _read(self, start: int, before: bytes, count: int) -> tuple[int, list[bytes]]:
        """Return *count* entries, and the place of the first: *start*, unless the list has shifted.

        Fewer are returned if they are long, but at least one if there is one.

        :param before: the entry before the first one, if *start* is not 0.
        """
        key = self._keys.failed
        entries = self._whole(max(0, start - 1), count + (start > 0))
        if not start:
            return start, entries
        if entries and entries[0] == before:
            return start, entries[1:]
        # A crawl has dropped the oldest entries; if *before* is not found, that entry too.
        place = self._server.lpos(key, before)
        start = 0 if place is None else place + 1
        return start, self._whole(start, count)

    def _whole(self, start: int, count: int) -> list[bytes]:
        _, pieces = self._entries.step("list", self._keys.failed, start, count, WHOLE)
        return [piece.data for piece in pieces]

    def _take(self, chosen: Callable[[FailedRequest], bool], again: bool) -> int:
        taken, start, before, left = 0, 0, b"", len(self)
        # Not more than the present length: an entry that fails again meanwhile is not taken twice.
        while left > 0:
            start, entries = self._read(start, before, min(STEP, left))
            if not entries:
                break
            left -= len(entries)
            picked, others = [], []
            for place, failed in enumerate(map(FailedRequest.parse, entries), start):
                if chosen(failed) and (failed.can_go_back or not again):
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
        # A random text, which no entry can contain.
        marker = f"taken:{secrets.token_hex(16)}"
        arguments = ("requeue", self._most, int(again), marker, len(picked), *fields)
        reply: list[int] = self._requeue(keys=self._keys.all(), args=arguments)
        return reply
