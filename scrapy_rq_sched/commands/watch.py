"""The option ``--watch``: a view that is shown repeatedly, and outlives an outage of Redis."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .. import connection
from ..supervise.redis_thread import RedisThread
from .action import Context
from .formats import duration, when
from .output import Fields, Part, Styled

#: Seconds between two drawings, by default.
INTERVAL = 1.0
#: Seconds without an answer after which Redis counts as away.
PATIENCE = 2.0
#: How to leave a live view.
LEAVE = "Ctrl-C leaves this view, and changes nothing"

T = TypeVar("T")


@dataclass(frozen=True)
class Picture(Generic[T]):
    """A view of a frontier.

    :param read: reads it from Redis; with ``--watch``, in another thread.
    :param as_json: an object for one of the things that were read, for ``--json``.
    :param parts: all of them, for a terminal, or for a single look.
    :param lines: the same in few lines, for ``--watch`` without a terminal; by default, the parts.
    """

    read: Callable[[], list[T]]
    as_json: Callable[[T], Any]
    parts: Callable[[list[T]], list[Part]]
    lines: Callable[[list[T]], list[str]] | None = None


class Absence:
    """For how long Redis has not answered a view that goes on."""

    def __init__(self) -> None:
        self._answered = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the last answer."""
        return time.monotonic() - self._answered

    def over(self) -> None:
        """Note an answer."""
        self._answered = time.monotonic()

    def text(self, problem: str) -> str:
        """Return for how long Redis is away.

        :param problem: the last error; empty if there is no answer at all.
        """
        return Styled(f"away for {duration(self.seconds)}: {problem or 'it has not answered yet'}", "red")


def add_watch(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--watch`` to *parser*."""
    parser.add_argument(
        "--watch",
        nargs="?",
        type=seconds,
        const=INTERVAL,
        metavar="SECONDS",
        help=f"show it repeatedly, every SECONDS (default: {INTERVAL:g}), until Ctrl-C",
    )


def seconds(text: str) -> float:
    """Return the interval of ``--watch``."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"must be a number from 0.1 to 3600, not {text!r}")
    return value


def watch(context: Context, opts: argparse.Namespace, picture: Picture[Any]) -> None:
    """Show *picture* once; with ``--watch``, repeatedly until Ctrl-C, also while Redis is away.

    :raises redis.exceptions.RedisError: if Redis does not answer at first, or for another reason than an
        outage.
    """
    if opts.watch:
        with suppress(KeyboardInterrupt), context.output.live(LEAVE, redraws=not opts.json) as draw:
            _Watch(context, opts, picture, draw).run()
    elif opts.json:
        _print_json(context, picture, picture.read())
    else:
        context.output.show(*picture.parts(picture.read()))


def _print_json(context: Context, picture: Picture[Any], found: list[Any]) -> None:
    for one in found:
        context.output.json(picture.as_json(one))


class _Watch:
    """A view that is repeated: drawn at the same place of a terminal, as lines or as JSON elsewhere."""

    def __init__(
        self, context: Context, opts: argparse.Namespace, picture: Picture[Any], draw: Callable[..., None]
    ) -> None:
        self._context, self._picture, self._draw = context, picture, draw
        self._interval: float = opts.watch
        self._is_json: bool = opts.json
        self._redis = RedisThread()
        self._absence = Absence()
        self._is_away = False
        # The last picture, which stays while Redis is away.
        self._shown: list[Part] | None = None

    def run(self) -> None:
        """Show the view until an exception ends it."""
        while True:
            begun = time.monotonic()
            asked = self._redis.call(self._picture.read)
            try:
                self._show(self._answer(asked))
            except connection.RedisError as error:
                if self._shown is None or not connection.may_pass(error):
                    raise
                self._show_absence(self._context.describe(error))
            time.sleep(max(0.0, begun + self._interval - time.monotonic()))

    def _answer(self, asked: Future[list[Any]]) -> list[Any]:
        """Return the answer of Redis; until it comes, show that Redis is away."""
        wait([asked], PATIENCE)
        while not asked.done():
            if self._shown is not None:
                self._show_absence("")
            wait([asked], max(INTERVAL, self._interval))
        return asked.result()

    def _show(self, found: list[Any]) -> None:
        output, picture = self._context.output, self._picture
        self._absence.over()
        if self._is_away and self._is_json:
            output.warn("Redis answers again")
        self._is_away = False
        if self._is_json:
            self._shown = []
            _print_json(self._context, picture, found)
        elif output.redraws:
            self._shown = picture.parts(found)
            self._draw(*self._shown)
        else:
            self._shown = []
            self._say(found)

    def _say(self, found: list[Any]) -> None:
        now = when(time.time())
        if self._picture.lines is None:
            self._context.output.show(now, *self._picture.parts(found), "")
        else:
            self._context.output.show(*(f"{now} {line}" for line in self._picture.lines(found)))

    def _show_absence(self, problem: str) -> None:
        text = self._absence.text(problem)
        if self._is_json:
            if not self._is_away:
                self._context.output.warn(f"Redis is {text}. The view goes on when Redis answers")
        elif self._context.output.redraws:
            self._draw(*(self._shown or []), "", Fields([("Redis", text)]))
        else:
            self._context.output.show(f"{when(time.time())} Redis is {text}")
        self._is_away = True
