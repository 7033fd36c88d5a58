"""Find out the state of a URL: whether it was seen, waits, is leased or failed, and its slot's delay."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request

from ..codec.failed_request import FailedRequest
from ..codec.names import names_in
from ..codec.pools import pool_of
from ..codec.values import text_of
from ..failed import FailedRequests
from ..frontier.entries import COMPARED
from ..frontier.scripts import filter_step
from ..serializers import serializer_name
from .crawl import Crawl
from .entries import Delayed, Entry, Follower, Held, Reader
from .fingerprint import Fingerprinter
from .groups import Group, Groups
from .outcomes import Ended, OutcomeMemory
from .pools import Pools
from .queues import Queues
from .slots import Slots, SlotStatus
from .status import PoolCounts
from .view import View

#: A path without characters that can be written in several ways.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._-]*")


@dataclass(frozen=True)
class Place:
    """The place where a request or a seed waits.

    :param before: the number of entries before it; None if unknown.
    :param key: the key that contains it.
    :param slot: the status of its slot; None if the request has no known slot.
    """

    before: int | None
    key: str
    entry: Entry
    slot: SlotStatus | None = None


@dataclass
class Explanation:
    """All that Redis has about a URL.

    :param fingerprint: in hexadecimal.
    :param seen: whether the dupefilter has it, and :param started: whether it was a start request of this
        crawl.
    :param waiting: its places in the queue, and :param seeds: its places among the seeds.
    :param held: its leases.
    :param delayed: its requests that a rule of admission has set back.
    :param following: its requests that wait for groups, and :param groups: these groups, if they are open.
    :param pools: the pools of which its waiting requests need an item.
    :param failed: its entries of the failed list.
    :param history: the deaths and refusals of workers that had it: ``died:`` or ``refused:``, worker, ``@``
        and second.
    :param alike: similar URLs that were seen.
    :param outcomes: the outcomes of its latest requests, the oldest first.
    :param last: the crawl under way, or the last one; None if it is unknown.
    :param knows_all: whether the outcome of each request of that crawl is known.
    :param exists: whether the frontier exists: else the crawl has ended, and its fingerprints are removed.
    """

    url: str
    fingerprint: str
    seen: bool = False
    started: bool = False
    waiting: list[Place] = field(default_factory=list)
    seeds: list[Place] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    delayed: list[Delayed] = field(default_factory=list)
    following: list[Follower] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    pools: list[PoolCounts] = field(default_factory=list)
    failed: list[FailedRequest] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    alike: list[str] = field(default_factory=list)
    outcomes: list[Ended] = field(default_factory=list)
    last: Crawl | None = None
    knows_all: bool = False
    exists: bool = True

    @property
    def is_nowhere(self) -> bool:
        """Whether it neither waits, nor is leased, nor has failed."""
        waits = self.waiting or self.seeds or self.delayed or self.following
        return not (waits or self.held or self.failed)


class Explainer:
    """Finds out the state of URLs in *view*'s frontier.

    :raises InspectionError: if the workers' fingerprints cannot be made in this process.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._reader = Reader(view, COMPARED)
        self._queues = Queues(view, COMPARED)
        self._fingerprinter = Fingerprinter(view)
        self._filter_step = filter_step(view.server, view.keys.dupefilter, view.dupefilter)

    def explain(self, text: str) -> Explanation:
        """Return all that Redis has about a URL, or about the request that a JSON object describes.

        Redis has no index of URLs, so this reads all waiting requests, in steps.

        :raises InspectionError: if *text* is neither.
        """
        request = self._fingerprinter.request(text)
        fingerprint = self._fingerprinter.of(request)
        found = Explanation(request.url, fingerprint, self._is_seen(request), self._has_started(fingerprint))
        may_be = _Alike(request.url) if self._fingerprinter.is_of_url else None

        def is_it(entry: Entry) -> bool:
            # Of an entry that is too long to be read, only the URL is known.
            fields = entry.fields or ({"url": entry.url} if entry.size else None)
            # Compare the paths first: most differ, and making a fingerprint takes longer.
            if not fields or (may_be is not None and not may_be.matches(entry.url)):
                return False
            return self._fingerprinter.of_fields(fields) == fingerprint

        found.waiting = [
            replace(place, slot=self._slot_of(place.entry))
            for place in self._waiting(may_be.needle if may_be else "", is_it)
        ]
        found.held = [held for held in self._reader.held() if is_it(held.entry)]
        found.delayed = [delayed for delayed in self._reader.delayed() if is_it(delayed.entry)]
        found.following = [one for one in self._reader.followers() if is_it(one.entry)]
        if found.following:
            names = frozenset().union(*(names_in(name) for one in found.following for name in one.groups))
            found.groups = list(Groups(self._view).read(names))
        found.pools = self._pools(found)
        found.seeds = [
            Place(before, key, entry) for key, before, entry in self._reader.seeds() if is_it(entry)
        ]
        failed = FailedRequests(self._view.server, self._view.keys)
        found.failed = [entry for entry in failed if is_it(self.entry_of(entry))]
        found.history = self._history(found)
        memory = OutcomeMemory(self._view)
        found.outcomes, found.last = memory.find(request.url, text), memory.last
        found.knows_all, found.exists = memory.has_all, self._view.exists
        if not found.seen and found.is_nowhere:
            found.alike = [url for url in _alike(request.url) if self._is_seen(request.replace(url=url))]
        return found

    def count_seen(self, texts: Iterable[str]) -> int:
        """Return how many of the URLs *texts* were seen; equal ones count once.

        :raises InspectionError: if one is not a valid URL.
        """
        found = {self._fingerprinter.of(self._fingerprinter.request(text)) for text in texts}
        return sum(bool(self._filter_step("has", fingerprint)) for fingerprint in found)

    def entry_of(self, failed: FailedRequest) -> Entry:
        """Return the request or seed of an entry of the failed list."""
        return self._reader.seed(failed.data) if failed.kind == "seed" else self._reader.request(failed.data)

    def _is_seen(self, request: Request) -> bool:
        return bool(self._filter_step("has", self._fingerprinter.of(request)))

    def _has_started(self, fingerprint: str) -> bool:
        return bool(self._view.server.sismember(self._view.keys.started, fingerprint))

    def _waiting(self, needle: str, is_it: Any) -> Iterator[Place]:
        view = self._view
        found = {}
        for entries in self._queues.waiting(needle_of(view, needle)):
            found.update({(index, entry.slot, entry.data): entry for index, entry in entries if is_it(entry)})
        for (index, slot, _), entry in found.items():
            key = view.keys.queue(slot)
            if entry.size:  # Redis finds the place of a whole entry only
                yield Place(None, key, entry)
            elif index is None:
                before = self._queues.place(entry)
                if before is not None:  # else a worker has taken it since
                    yield Place(before, key, entry)
            elif view.queue_class.pops_tail:
                yield Place(max(0, view.server.llen(key) - index - 1), key, entry)
            else:
                yield Place(max(0, view.server.llen(key) + index), key, entry)

    def _pools(self, found: Explanation) -> list[PoolCounts]:
        """Return the pools for which the URL waits; one that Redis does not have has no items."""
        names = {pool for place in found.waiting if (pool := pool_of(place.entry.slot))}
        if not names:
            return []
        known = {pool.name: pool for pool in Pools(self._view).counts(names=names)}
        return [known.get(name, PoolCounts(name)) for name in sorted(names)]

    def _slot_of(self, entry: Entry) -> SlotStatus | None:
        return next(Slots(self._view).read([entry.slot])) if entry.slot and self._view.exists else None

    def _history(self, found: Explanation) -> list[str]:
        data = {place.entry.data for place in found.waiting} | {held.entry.data for held in found.held}
        data |= {delayed.entry.data for delayed in found.delayed}
        data |= {follower.entry.data for follower in found.following}
        texts = [self._view.server.hget(self._view.keys.history, sha1_of(entry)) for entry in sorted(data)]
        return [event for text in texts if text for event in text_of(text).split()]


class _Alike:
    """The URLs that could have the same canonical form as *url*."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._path = parts.path or "/"
        self._is_plain = _PLAIN_PATH.fullmatch(self._path) is not None
        host = (parts.hostname or "").lower()
        #: A text that all of them contain; empty if unknown.
        self.needle = self._path if self._is_plain and len(self._path) > 1 else host

    def matches(self, url: str) -> bool:
        """Return whether *url* could be one of them."""
        if not self._is_plain or "%" in url or not url.isascii():
            return True
        try:
            return (urlsplit(url).path or "/") == self._path
        except ValueError:
            return False


def needle_of(view: View, text: str) -> bytes | None:
    """Return bytes that all entries with *text* in their URL contain; None if unknown."""
    plain = text.isascii() and text.isprintable() and not set(text) & set('"\\')
    shown = serializer_name(view.serializer) in ("json", "msgpack", "pickle")
    return text.encode() if plain and shown and len(text) > 1 else None


def sha1_of(data: bytes) -> str:
    """Return the field of *data* in a frontier's history."""
    return hashlib.sha1(data).hexdigest()  # noqa: S324 - as in the Lua scripts


def _alike(url: str) -> Iterator[str]:
    """Yield URLs that people and pages often confuse with *url*."""
    parts = urlsplit(url)
    host = parts.netloc.removeprefix("www.")
    schemes = ("https", "http") if parts.scheme in ("http", "https") else (parts.scheme,)
    path = parts.path.rstrip("/")
    variants = {
        parts._replace(scheme=scheme, netloc=netloc, path=variant).geturl()
        for scheme in schemes
        for netloc in (host, f"www.{host}")
        for variant in (path or "/", f"{path}/")
    }
    yield from sorted(variants - {url})
