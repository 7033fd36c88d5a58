"""What each of ``scrapy frontier``'s commands has in common."""

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
    """What a command works with.

    :param settings: Scrapy's: the project's, if there is one, with what the command line says otherwise.
    :param output: where it prints.
    :param redis_key: the seeds' key, if the command line says so (``-a redis_key=…``).
    """

    settings: Any
    output: Output
    redis_key: str | None = None
    #: Of the last frontier that was looked at.
    server: Any = None

    def spiders(self) -> list[str]:
        """Return the names of the project's spiders; none outside a project."""
        return sorted(self._spider_loader().list())

    def _spider_loader(self) -> Any:
        # What Scrapy has for this, its 2.13.0 lacks.
        return load_object(self.settings["SPIDER_LOADER_CLASS"]).from_settings(self.settings.frozencopy())

    def spidercls(self, spider: str) -> type[Spider] | None:
        """Return the class of the spider called *spider*; None if the project has none."""
        loader = self._spider_loader()
        return loader.load(spider) if spider in loader.list() else None

    def view(self, spider: str) -> View:
        """Return the frontier of the spider called *spider*.

        :raises InspectionError: if neither the project nor Redis knows it.
        """
        names = self.spiders()
        spidercls = self.spidercls(spider)
        view = View.from_settings(self.settings, spider, spidercls, self.redis_key)
        self.server = view.server
        if names and spidercls is None and not view.exists:
            known = ", ".join(names)
            raise InspectionError(
                f"This project has no spider {spider!r}, nor has Redis a frontier of it. The project has: "
                f"{known}"
            )
        return view


class Action(ABC):
    """A command of ``scrapy frontier``."""

    #: What is typed after ``scrapy frontier``.
    name: ClassVar[str]
    #: One line for the list of commands.
    summary: ClassVar[str]
    #: What its help says.
    description: ClassVar[str] = ""
    #: What follows the spider's name, for its help.
    syntax: ClassVar[str] = ""
    #: Whether a spider is named first.
    spider: ClassVar[Literal["required", "optional", "none"]] = "required"
    #: The last of the arguments, if it may be left out: what follows an option is taken for it, too.
    last: ClassVar[str] = ""

    def usage(self) -> str:
        """Return how it is typed."""
        spider = {"required": "SPIDER", "optional": "[SPIDER]", "none": ""}[self.spider]
        return " ".join(("scrapy frontier", self.name, *filter(None, ("[options]", spider, self.syntax))))

    @abstractmethod
    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what follows the spider's name to *parser*."""

    @abstractmethod
    def run(self, context: Context, opts: argparse.Namespace) -> int | None:
        """Do it.

        :return: the exit code, if it is another than 0.
        :raises FrontierError: in one line, what is wrong.
        """


@contextmanager
def until_interrupted() -> Iterator[Callable[[], bool]]:
    """Give a function that says whether Ctrl-C was pressed: a step that is begun is ended.

    An exception in the midst of a step would be raised wherever the step is, also inside of a library in C.

    :raises KeyboardInterrupt: at a second Ctrl-C, at once.
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
