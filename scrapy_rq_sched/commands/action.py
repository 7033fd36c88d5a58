"""The base of all commands of ``scrapy frontier``, and the context they run in."""

from __future__ import annotations

import argparse
import signal
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from scrapy import Spider

from .. import connection
from ..errors import InspectionError
from ..inspect import View
from ..inspect.operations.operation import Advance, Observer, Operation, Outcome
from ..inspect.project_spiders import ProjectSpiders
from .output import Output


@dataclass
class Context:
    """The settings, the output and the Redis that a command works with.

    :param settings: Scrapy's settings: the project's, if there is one, overridden by the command line.
    :param output: prints the command's output.
    :param redis_key: the seeds' key, if the command line has one (``-a redis_key=…``).
    """

    settings: Any
    output: Output
    redis_key: str | None = None
    #: The client of the last frontier that was read.
    server: Any = None
    _has_warned: bool = False

    @cached_property
    def project(self) -> ProjectSpiders:
        """The project's spiders, without those of files that cannot be imported."""
        return ProjectSpiders(self.settings)

    def spiders(self) -> list[str]:
        """Return the names of the project's spiders; outside a project, an empty list."""
        self.warn_of_broken_files()
        return self.project.list()

    def spidercls(self, spider: str) -> type[Spider] | None:
        """Return the class of the spider called *spider*; None if the project has none."""
        return self.project.load(spider)

    def warn_of_broken_files(self) -> None:
        """Print once a line for each file of the project that cannot be imported."""
        if not self._has_warned:
            for problem in self.project.problems:
                self.output.warn(f"{problem}. This command goes on without its spiders")
        self._has_warned = True

    def no_spider(self, sentence: str, list_of: str = "Its") -> InspectionError:
        """Return the error for a spider that does not exist.

        :param sentence: says where there is no such spider.
        :param list_of: the word before *spiders*, in the list of those that the project has.
        """
        known = self.project.list()
        sentences = [sentence, *([f"{list_of} spiders: {', '.join(known)}"] if known else [])]
        if self.project.problems:
            sentences += [*self.project.problems, "Correct this, if it should have the spider"]
        return InspectionError(". ".join(sentences))

    def describe(self, error: connection.RedisError) -> str:
        """Return one line about *error*: which Redis failed, how, and what to do."""
        return connection.describe_error(self.server or connection.get_client(self.settings), error)

    def view(self, spider: str) -> View:
        """Return the frontier of the spider called *spider*.

        :raises InspectionError: if neither the project nor Redis knows this spider.
        """
        spidercls = self.spidercls(spider)
        view = View.from_settings(self.settings, spider, spidercls, self.redis_key)
        self.server = view.server
        is_project = self.project.list() or self.project.problems
        if is_project and spidercls is None and not (view.exists or view.has_traces):
            raise self.no_spider(f"Neither this project nor Redis has a spider {spider!r}", "The project's")
        self.warn_of_broken_files()
        return view


class Action(ABC):
    """A command of ``scrapy frontier``."""

    #: The word after ``scrapy frontier``.
    name: ClassVar[str]
    #: One line for the list of commands.
    summary: ClassVar[str]
    #: The text of its help; by default, the summary.
    description: ClassVar[str] = ""
    #: Two or three commands for its help, which can be typed as they are.
    examples: ClassVar[tuple[str, ...]]
    #: The arguments after the spider's name, for its help: one or more forms.
    syntax: ClassVar[tuple[str, ...]] = ("",)
    #: Whether the first argument is a spider.
    spider: ClassVar[Literal["required", "optional", "none"]] = "required"
    #: The last positional argument, if it is optional: it may follow an option, too.
    last: ClassVar[str] = ""

    def usage(self) -> str:
        """Return the forms of the command, one per line."""
        spider = {"required": "SPIDER", "optional": "[SPIDER]", "none": ""}[self.spider]
        return "\n  ".join(
            " ".join(("scrapy frontier", self.name, *filter(None, ("[options]", spider, form))))
            for form in self.syntax
        )

    def epilog(self) -> str:
        """Return the end of its help: the examples."""
        return "\n".join(("Examples", "========", *(f"  {example}" for example in self.examples)))

    @abstractmethod
    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options and arguments after the spider's name to *parser*."""

    @abstractmethod
    def run(self, context: Context, opts: argparse.Namespace) -> int | None:
        """Run the command.

        :return: the exit code; None: 0.
        :raises FrontierError: with a message of one line.
        """


class Change(Action):
    """A command that changes a frontier; with ``--dry-run`` it only tells what it would do."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add ``--dry-run``."""
        add_dry_run(parser, "tell what would happen, and change nothing")

    @abstractmethod
    def operation(self, view: View, opts: argparse.Namespace, observer: Observer) -> Operation:
        """Prepare the change that the arguments describe."""

    def run(self, context: Context, opts: argparse.Namespace) -> int | None:
        """Make the change, or show its plan."""
        self.perform(context, opts)
        return None

    def perform(self, context: Context, opts: argparse.Namespace) -> Outcome:
        """Make the change, or plan it, and print the outcome."""
        operation = self.operation(context.view(opts.spider), opts, Spectator(context.output))
        outcome = operation.plan() if opts.dry_run else operation.do()
        hint = " (--dry-run)" if opts.dry_run else outcome.hint and f". {outcome.hint}"
        context.output.say(f"{outcome.text}{hint}")
        return outcome


def add_dry_run(parser: argparse.ArgumentParser, text: str) -> None:
    """Add the option ``--dry-run`` to *parser*, with the *text* of its help."""
    parser.add_argument("--dry-run", action="store_true", help=text)


class Spectator(Observer):
    """Shows warnings and the progress, and interrupts an operation at Ctrl-C."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output

    def warn(self, text: str) -> None:
        """Print a warning."""
        self._output.warn(text)

    @contextmanager
    def progress(self, label: str, total: int | None) -> Iterator[Advance]:
        """Draw a progress bar. Ctrl-C ends the operation after the present step; a second one, at once."""
        # An exception of the signal would interrupt a step anywhere, even inside a C library.
        pressed: list[int] = []

        def press(number: int, _: Any) -> None:
            pressed.append(number)
            if len(pressed) > 1:
                raise KeyboardInterrupt

        def advance(count: int) -> None:
            show(count)
            if pressed:
                raise KeyboardInterrupt

        before = signal.signal(signal.SIGINT, press)
        try:
            with self._output.progress(label, total) as show:
                yield advance
        finally:
            signal.signal(signal.SIGINT, before)
