"""Push seeds: check all of them before the first is pushed, and resume a push that was interrupted."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ..connection import RedisConnectionError, RedisTimeoutError, backoff, server_of
from ..errors import InspectionError, SeedError, UnknownCodeError, one_line
from ..frontier.scripts import register
from . import own_keys
from .seed_rules import SeedRules
from .view import View

#: Maximum of seeds, and of their bytes, in one step: Redis can do no other work during a step.
STEP, STEP_BYTES = 1000, 1_000_000
#: Seconds for which an interrupted push can be resumed.
KEPT_FOR = 7 * 24 * 3600
#: Number of retries of a command that may not have reached Redis; repeating it has no further effect.
RETRIES = 5
#: Maximum number of bad seeds that are reported with their reason.
SHOWN = 10

_KINDS = ("list", "set", "zset")

#: Called with the number of further seeds that are done.
Advance = Callable[[int], None]


class Source(Protocol):
    """The seeds of a file or a command line, which can be read repeatedly."""

    def __iter__(self) -> Iterator[tuple[int, str | None]]:
        """Yield each seed with its number; None for a seed that is too long."""

    def check_unchanged(self) -> None:
        """Check that the seeds were not changed.

        :raises InspectionError: if they were.
        """


class Few(list[tuple[int, str | None]]):
    """Seeds in memory, which are pushed in one step."""

    def __init__(self, texts: Iterable[str]) -> None:
        super().__init__(enumerate(texts, 1))

    def check_unchanged(self) -> None:
        """Do nothing: seeds in memory do not change."""


@dataclass
class Checked:
    """The result of checking the seeds.

    :param good: the number of seeds that can be pushed.
    :param bad: the number of seeds that cannot.
    :param problems: number and reason of the first :data:`SHOWN` bad seeds.
    """

    good: int = 0
    bad: int = 0
    problems: list[tuple[int, str]] = field(default_factory=list)


class _Seed(NamedTuple):
    data: bytes
    score: int


class Seeding:
    """Pushes *source* to the first of the seeds' keys of *view*'s frontier.

    Call :meth:`check`, then :meth:`push`.

    :param source: :class:`Few`, or the lines of a file.
    :raises InspectionError: if ``meta`` names keys that are not the frontier's.
    """

    def __init__(self, view: View, source: Source, rules: SeedRules) -> None:
        own_keys.require(view)
        self._server = view.server
        self._source = source
        self._rules = rules
        self._is_few = isinstance(source, Few)
        self._seeding = view.keys.seeding
        #: The seeds' key, and its type: ``list`` if it does not exist.
        self.key = view.keys.start_urls[0]
        self.kind = self._read_kind()
        #: The number of seeds that are known to be in Redis.
        self.pushed = 0
        self._digest = ""
        self._checked = Checked()
        self._keys = [*view.keys.own(), self.key, self._seeding]
        self._step = register(view.server, "seed")

    def check(self, advance: Advance) -> Checked:
        """Check all seeds, and find out how many of them an earlier, interrupted push has pushed.

        :raises InspectionError: if the seeds cannot be read.
        """
        digest = hashlib.sha256(self.key.encode() + b"\n")
        checked = self._checked = Checked()
        for number, text in self._source:
            try:
                seed = self._good_seed(text)
            except (SeedError, UnknownCodeError) as error:
                checked.bad += 1
                if len(checked.problems) < SHOWN:
                    checked.problems.append((number, one_line(error)))
                continue
            digest.update(seed + b"\n")
            checked.good += 1
            if checked.good % STEP == 0:
                advance(STEP)
        advance(checked.good % STEP)
        # A repeated command line pushes its seeds again, so each push of it has another name.
        self._digest = secrets.token_hex(16) if self._is_few else digest.hexdigest()
        # Lets this push notice another one that finishes the same seeds before this one begins.
        patiently(lambda: self._server.hsetnx(self._seeding, self._digest, 0))
        patiently(lambda: self._server.expire(self._seeding, KEPT_FOR))
        self.look()
        return checked

    def look(self) -> int:
        """Ask Redis how many seeds are pushed, and return the number."""
        # Never less than before: Redis forgets the number at the end of a push.
        self.pushed = max(self.pushed, int(self._server.hget(self._seeding, self._digest) or 0))
        return self.pushed

    def forget(self) -> None:
        """Delete the number of pushed seeds from Redis, after all were pushed."""
        patiently(lambda: self._server.hdel(self._seeding, self._digest))

    def push(self, advance: Advance) -> None:
        """Push the good seeds that are not pushed yet, in their order.

        :raises InspectionError: if the seeds were changed, or Redis no longer knows how many are pushed.
        """
        position = 0
        for seeds in self._steps():
            end = position + len(seeds)
            while self.pushed < end:
                self._check_known(position)
                self._source.check_unchanged()
                self._push(seeds[self.pushed - position :])
            advance(len(seeds))
            position = end
        self.forget()

    def _push(self, seeds: list[_Seed]) -> None:
        arguments: list[bytes | str | int] = [self._digest, self.pushed, self.kind, KEPT_FOR, len(seeds)]
        for seed in seeds:
            arguments += [seed.score, seed.data]
        self.pushed = int(patiently(lambda: self._step(self._keys, arguments)))

    def _check_known(self, least: int) -> None:
        if self.pushed < least:
            raise InspectionError(
                f"This command has pushed {least:,} of the seeds, but Redis no longer knows it: Redis was "
                "restored from older data, or another command has finished pushing the same seeds. Inspect "
                f"the key {self.key!r} before you run this command again"
            )

    def _steps(self) -> Iterator[list[_Seed]]:
        """Yield the good seeds, in lists of the length of a step."""
        seeds: list[_Seed] = []
        size = 0
        for seed in self._good():
            size += len(seed.data)
            if seeds and not self._is_few and (len(seeds) == STEP or size > STEP_BYTES):
                yield seeds
                seeds, size = [], len(seed.data)
            seeds.append(seed)
        if seeds:
            yield seeds

    def _good(self) -> Iterator[_Seed]:
        for _, text in self._source:
            try:
                # All were checked before. Check again only if the bad ones must be left out.
                seed = self._good_seed(text) if self._checked.bad else self._rules.prepare(text)
            except (SeedError, UnknownCodeError):
                continue
            yield _Seed(seed, self._rules.priority(seed) if self.kind == "zset" else 0)

    def _good_seed(self, text: str | None) -> bytes:
        seed = self._rules.prepare(text)
        if not self._rules.are_its_own:
            self._rules.request(seed)
        return seed

    def _read_kind(self) -> str:
        kind: str = server_of(self._server, self.key).type(self.key).decode()
        if kind == "none":
            return "list"
        if kind not in _KINDS:
            raise InspectionError(
                f"Key {self.key!r} is a {kind}, but seeds need a list, a set or a sorted set. Rename or "
                "delete the key"
            )
        return kind


def patiently(call: Callable[[], Any]) -> Any:
    """Return the result of *call*, and retry it if Redis does not answer; it must be idempotent."""
    failures = 0
    while True:
        try:
            return call()
        except (RedisConnectionError, RedisTimeoutError):
            failures += 1
            if failures > RETRIES:
                raise
            time.sleep(backoff(1.0).compute(failures))
