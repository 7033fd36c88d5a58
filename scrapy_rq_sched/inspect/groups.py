"""Read the open groups of requests, and what waits for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..codec.names import names_in
from ..codec.values import text_of, whole_of
from ..connection import server_of
from .view import View

#: See ``lua/store/groups.lua``: the range of the scores of a group's members.
SPAN = 2**26
#: How many groups are counted in one round trip.
STEP = 200


@dataclass(frozen=True)
class Group:
    """An open group of requests.

    :param requests: how many of its requests are not finished: they wait, are leased, or are in a worker's
        memory.
    :param following: how many requests wait for it.
    :param failed: how many of its requests were set aside.
    """

    name: str
    requests: int
    following: int
    failed: int


class Groups:
    """The open groups of *view*'s frontier.

    A request may be in several groups. These together have a number of their own, and it is counted for each
    of them.
    """

    def __init__(self, view: View) -> None:
        self._keys = view.keys
        self._server = server_of(view.server, view.keys.requests)
        self._view = view
        self._names: dict[int, str] | None = None

    @property
    def names(self) -> dict[int, str]:
        """The names of the groups in Redis, by number, also of those that are several groups together."""
        if self._names is None:
            self._names = {
                whole_of(text_of(field)[1:]): text_of(name)
                for field, name in self._server.hscan_iter(self._keys.groups, count=STEP)
                if field.startswith(b"#") and field[1:].isdigit()
            }
        return self._names

    @property
    def count(self) -> int:
        """How many groups are open."""
        return sum("|" not in name for name in self.names.values())

    def read(self, names: Iterable[str] | None = None) -> Iterator[Group]:
        """Yield the open groups with these *names*; by default all, in alphabetical order."""
        numbers = {name: number for number, name in self.names.items()}
        within: dict[str, list[int]] = {}
        for name, number in numbers.items():
            if "|" in name:
                for single in name.split("|"):
                    within.setdefault(single, []).append(number)
        wanted = sorted(name for name in numbers if "|" not in name)
        if names is not None:
            chosen = set(names)
            wanted = [name for name in wanted if names_in(name) & chosen]
        waiting = iter(wanted)
        while some := list(islice(waiting, STEP)):
            yield from self._count(some, numbers, within)

    def _count(
        self, some: list[str], numbers: dict[str, int], within: dict[str, list[int]]
    ) -> Iterator[Group]:
        keys, pipe = self._keys, self._view.pipeline()
        for name in some:
            number, more = numbers[name], within.get(name, [])
            for one in (number, *more):
                pipe.zcount(keys.group_members, one * SPAN, (one + 1) * SPAN - 1)
            pipe.zcount(keys.followers, number, number)
            pipe.hget(keys.groups, f"#{number}!")
        replies: Iterator[Any] = iter(pipe.execute())
        for name in some:
            more = within.get(name, [])
            # Of its own members, one stands for each group that is within it.
            requests = sum(islice(replies, 1 + len(more))) - len(more)
            yield Group(
                min(names_in(name)), max(0, requests), next(replies), whole_of(text_of(next(replies) or b""))
            )
