"""The entries of the failed list, grouped by kind of error, with their hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ..codec.failed_request import FailedRequest
from ..failed import FailedRequests


@dataclass
class FailedGroup:
    """Some entries of the failed list.

    :param count: their number.
    :param latest: when the latest was set aside, in seconds since 1970.
    :param hosts: the number of entries for each host of their URLs; the empty text stands for no host.
    """

    count: int = 0
    latest: int = 0
    hosts: Counter[str] = field(default_factory=Counter)

    def add(self, entry: FailedRequest, url: str) -> None:
        """Count *entry*, which has this *url*."""
        self.count += 1
        self.latest = max(self.latest, entry.time)
        self.hosts[host_of(url)] += 1


def grouped(
    failed: FailedRequests, entries: Iterable[FailedRequest], key: Callable[[FailedRequest], Any]
) -> dict[Any, FailedGroup]:
    """Return groups of *entries* by their *key*, the largest first.

    :param failed: the list that they come from.
    """
    groups: dict[Any, FailedGroup] = {}
    for entry in entries:
        groups.setdefault(key(entry), FailedGroup()).add(entry, failed.url_of(entry))
    return dict(sorted(groups.items(), key=lambda one: -one[1].count))


def host_of(url: str) -> str:
    """Return the host of *url*; empty if it has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
