"""Push seeds: check all of them before the first is pushed, and resume a push that was interrupted."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ... import connection
from ...connection import RedisConnectionError, RedisTimeoutError, backoff, server_of
from ...errors import InspectionError, SeedError, UnknownCodeError, frontier_command, one_line
from ...frontier.scripts import register
from .. import own_keys
from ..read_status import read_status
from ..view import View
from ..wording import counted, crawl_command
from .operation import DONE, Advance, Mood, Observer, Operation
from .seed_lines import Lines
from .seed_rules import SeedRules

#: Maximum of seeds, and of their bytes, in one step: Redis can do no other work during a step.
STEP, STEP_BYTES = 1000, 1_000_000
#: Seconds for which an interrupted push can be resumed.
KEPT_FOR = 7 * 24 * 3600
#: Number of retries of a command that may not have reached Redis; repeating it has no further effect.
RETRIES = 5
#: Maximum number of bad seeds that are reported with their reason.
SHOWN = 10

_KINDS = ("list", "set", "zset")


class Few(list[tuple[int, str | None]]):
    """Seeds in memory, which are pushed in one step."""

    noun = "seed"

    def __init__(self, texts: Iterable[str]) -> None:
        super().__init__(enumerate(texts, 1))

    def check_unchanged(self) -> None:
        """Do nothing: seeds in memory do not change."""


#: The seeds of a command line or a file, each with its number; None stands for one that is too long. They can
#: be read repeatedly.
Source = Few | Lines


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

    Call :meth:`check`, :meth:`begin`, and then :meth:`push`.

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

    def check(self, advance: Advance = lambda count: None) -> Checked:
        """Check all seeds, and find out how many of them an earlier, interrupted push has pushed.

        This changes nothing in Redis.

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
        self.look()
        return checked

    def begin(self) -> None:
        """Register this push in Redis.

        Then it notices another one that finishes the same seeds before this one pushes its first.
        """
        patiently(lambda: self._server.hsetnx(self._seeding, self._digest, 0))
        patiently(lambda: self._server.expire(self._seeding, KEPT_FOR))
        self.look()

    def look(self) -> int:
        """Ask Redis how many seeds are pushed, and return the number."""
        # Never less than before: Redis forgets the number at the end of a push.
        self.pushed = max(self.pushed, int(self._server.hget(self._seeding, self._digest) or 0))
        return self.pushed

    def forget(self) -> None:
        """Delete the number of pushed seeds from Redis, after all were pushed."""
        patiently(lambda: self._server.hdel(self._seeding, self._digest))

    def push(self, advance: Advance = lambda count: None) -> None:
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

    def is_through(self) -> bool:
        """Return whether all good seeds are pushed, even if the push was interrupted."""
        # The interrupted step may have been completed.
        with suppress(connection.RedisError):
            self.look()
            if self.pushed == self._checked.good:
                self.forget()
        return self.pushed == self._checked.good

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


def push_seeds(
    view: View, observer: Observer, source: Source, rules: SeedRules, skips_invalid: bool = False
) -> Operation:
    """Push the seeds of *source*, none if one is invalid. The count is that of the seeds.

    :param skips_invalid: whether to push the valid seeds even if others are invalid.
    """
    seeding, noun = Seeding(view, source, rules), source.noun
    if rules.are_its_own:
        observer.warn(
            f"the seeds are not checked, because spider {view.spider} has its own format of seeds "
            "(make_request_from_data)"
        )
    progress, again = observer.progress, "Run the same command again to continue there"
    if isinstance(source, Few):  # they are pushed before a bar could be drawn
        progress, again = Observer().progress, "Check which are there before you push them again"

    def so_far(total: int) -> str:
        return f"{seeding.pushed:,} of {counted(total, 'seed')} were pushed"

    def check() -> int:
        with progress("checking", None) as advance:
            found = seeding.check(advance)
        for place, reason in found.problems:
            observer.warn(f"{noun} {place}: {reason}")
        if found.bad > len(found.problems):
            observer.warn(f"and {found.bad - len(found.problems):,} more")
        _check_good(found, noun, skips_invalid)
        if found.bad:
            observer.warn(f"{counted(found.bad, noun)} skipped")
        if seeding.pushed:
            rest = "nothing is left to push" if seeding.pushed == found.good else "continuing there"
            observer.warn(f"{so_far(found.good)} by an interrupted run: {rest}")
        return found.good

    def deed() -> int:
        total = check()
        seeding.begin()
        before = seeding.pushed
        try:
            with progress("pushing", total) as advance:
                seeding.push(advance)
        except KeyboardInterrupt:
            if not seeding.is_through():
                raise KeyboardInterrupt(f"interrupted: {so_far(total)}. {again}") from None
        except connection.RedisError as error:
            if seeding.pushed < total:
                why = connection.describe_error(view.server, error)
                raise InspectionError(f"{why}. At least {so_far(total)}. {again}") from error
        return total - before

    def text(count: int, mood: Mood) -> str:
        sentence = f"{counted(count, 'seed')} {mood.be(count)} pushed to {seeding.key!r}"
        if seeding.kind != "list":
            sentence += (
                f", a {'set' if seeding.kind == 'set' else 'sorted set'}, which keeps equal seeds once"
            )
        with suppress(connection.RedisError):  # they were pushed, even if the workers cannot be read now
            sentence += f". {_readers(view, count, mood)}"
        return sentence

    return Operation(text, lambda: check() - seeding.pushed, deed)


def _check_good(found: Checked, noun: str, skips_invalid: bool) -> None:
    if not found.good:
        problem = "all seeds are invalid" if found.bad else "there are no seeds"
    elif found.bad and not skips_invalid:
        problem = (
            f"{counted(found.bad, noun)} of {found.bad + found.good:,} {'is' if found.bad == 1 else 'are'} "
            "invalid. Correct them, or leave them out (--skip-invalid)"
        )
    else:
        return
    raise InspectionError(f"Nothing was pushed: {problem}")


def _readers(view: View, count: int, mood: Mood) -> str:
    """Return which workers will read *count* seeds; after a push, also how to have them read."""
    status = read_status(view)
    workers = counted(status.alive, "worker")
    if status.state in ("paused", "draining"):
        resume = f". To resume it: {frontier_command('resume', view.spider)}" * (mood is DONE)
        return f"The crawl is {status.state}, with {workers}{resume}"
    if not status.alive:
        return "No worker is alive" + f". Start one: {crawl_command(view.spider)}" * (mood is DONE)
    if status.state == "stopping":
        return f"{workers} alive, but closing"
    return f"{workers} {mood.will} read {'it' if count == 1 else 'them'}"


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
