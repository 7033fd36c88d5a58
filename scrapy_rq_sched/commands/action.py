"""The base of all commands of ``scrapy frontier``, and the context they run in."""

from __future__ import annotations

import argparse
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from scrapy import Spider
from scrapy.utils.misc import load_object

from ..errors import InspectionError
from ..inspect import View
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

    def spiders(self) -> list[str]:
        """Return the names of the project's spiders; outside a project, an empty list."""
        return sorted(self._spider_loader().list())

    def _spider_loader(self) -> Any:
        # Scrapy 2.13.0 lacks the function for this.
        return load_object(self.settings["SPIDER_LOADER_CLASS"]).from_settings(self.settings.frozencopy())

    def spidercls(self, spider: str) -> type[Spider] | None:
        """Return the class of the spider called *spider*; None if the project has none."""
        loader = self._spider_loader()
        return loader.load(spider) if spider in loader.list() else None

    def view(self, spider: str) -> View:
        """Return the frontier of the spider called *spider*.

        :raises InspectionError: if neither the project nor Redis knows this spider.
        """
        names = self.spiders()
        spidercls = self.spidercls(spider)
        view = View.from_settings(self.settings, spider, spidercls, self.redis_key)
        self.server = view.server
        if names and spidercls is None and not view.exists:
            known = ", ".join(names)
            raise InspectionError(
                f"Neither this project nor Redis has a spider {spider!r}. The project's spiders: {known}"
            )
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


@contextmanager
def until_interrupted() -> Iterator[Callable[[], bool]]:
    """Give a function that returns whether Ctrl-C was pressed, so that a step that has begun is completed.

    An exception would interrupt the step anywhere, even inside a C library.

    :raises KeyboardInterrupt: at a second Ctrl-C, immediately.
    """
    pressed: list[int] = []

    def press(number: int, _: Any) -> None:
        pressed.append(number)
        if len(pressed) > 1:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)
