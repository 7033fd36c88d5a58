"""Push seeds: all are checked before the first is pushed, and a push that broke off is gone on with."""

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
from .seed_rules import SeedRules
from .view import View

#: Seeds that are pushed in one step, and their bytes: Redis does nothing else meanwhile.
STEP, STEP_BYTES = 1000, 1_000_000
#: Seconds for which a push that broke off can be gone on with.
KEPT_FOR = 7 * 24 * 3600
#: How often what may not have got through is tried again: done twice it is done once.
RETRIES = 5
#: Of so many bad seeds it is said what is wrong with them.
SHOWN = 10

_KINDS = ("list", "set", "zset")

#: Told of each so many that are done.
Advance = Callable[[int], None]


class Source(Protocol):
    """Seeds as they are given, to be read as often as is needed."""

    def __iter__(self) -> Iterator[tuple[int, str | None]]:
        """Yield each with its number; None for one that is too long."""

    def check_unchanged(self) -> None:
        """Check that they are still what they were.

        :raises InspectionError: if they are not.
        """


class Few(list[tuple[int, str | None]]):
    """Seeds that are given all at once: they are pushed in one step."""

    def __init__(self, texts: Iterable[str]) -> None:
        super().__init__(enumerate(texts, 1))

    def check_unchanged(self) -> None:
        """Check nothing: nobody else has them."""


@dataclass
class Checked:
    """What the seeds were found to be.

    :param good: how many can be pushed.
    :param bad: how many cannot.
    :param problems: of the first :data:`SHOWN` of these, number and reason.
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
    """

    def __init__(self, view: View, source: Source, rules: SeedRules) -> None:
        self._server = view.server
        self._source = source
        self._rules = rules
        self._is_few = isinstance(source, Few)
        self._seeding = view.keys.seeding
        #: The seeds' key, and its type: ``list`` if it is not there.
        self.key = view.keys.start_urls[0]
        self.kind = self._read_kind()
        #: How many of them are in Redis, as far as is known.
        self.pushed = 0
        self._digest = ""
        self._checked = Checked()
        self._keys = [*view.keys.own(), self.key, self._seeding]
        self._step = register(view.server, "seed")

    def check(self, advance: Advance) -> Checked:
        """Return what the seeds are, and find out how many of them an earlier push has pushed.

        :raises InspectionError: if they cannot be read.
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
        # The same once more on a command line is meant to be pushed once more.
        self._digest = secrets.token_hex(16) if self._is_few else digest.hexdigest()
        # So that one who is through with the same before this one has begun is noticed.
        patiently(lambda: self._server.hsetnx(self._seeding, self._digest, 0))
        patiently(lambda: self._server.expire(self._seeding, KEPT_FOR))
        self.look()
        return checked

    def look(self) -> int:
        """Ask Redis how many are pushed, and return it."""
        # No less than is known: at its end it is forgotten.
        self.pushed = max(self.pushed, int(self._server.hget(self._seeding, self._digest) or 0))
        return self.pushed

    def forget(self) -> None:
        """Forget how many are pushed, once all of them are."""
        patiently(lambda: self._server.hdel(self._seeding, self._digest))

    def push(self, advance: Advance) -> None:
        """Push the good ones that are not pushed yet, in their order.

        :raises InspectionError: if they are not what they were, or Redis no longer knows how many are pushed.
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
                f"Of these seeds {least:,} were pushed here, and Redis no longer knows of it: it has come "
                "back with older data, or another that pushed the same was through with it. See what is in "
                f"{self.key!r} before you run this again"
            )

    def _steps(self) -> Iterator[list[_Seed]]:
        """Yield the good ones, as many at a time as are pushed in a step."""
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
                # They were checked: once more only to tell good from bad.
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
                f"Key {self.key!r} is a {kind}, where seeds are in a list, a set or a sorted set. Rename or "
                "delete it"
            )
        return kind


def patiently(call: Callable[[], Any]) -> Any:
    """Return what *call* returns; it is repeated if it may not have got through, so twice must be as once."""
    failures = 0
    while True:
        try:
            return call()
        except (RedisConnectionError, RedisTimeoutError):
            failures += 1
            if failures > RETRIES:
                raise
            time.sleep(backoff(1.0).compute(failures))
