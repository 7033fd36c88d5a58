"""What ``scrapy crawl`` is told, so that an existing project is crawled by several workers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scrapy import Spider
from scrapy.utils.conf import feed_process_params_from_cli
from scrapy.utils.misc import load_object

from ..addon import Addon
from ..errors import SettingError
from ..feeds import PART_SCHEME
from .feeds import STORAGE, Feed, path_of

#: The settings that say where Redis is.
_REDIS = ("REDIS_URL", "REDIS_HOST", "REDIS_PORT", "REDIS_DB", "REDIS_PARAMS")


def says_where_redis_is(settings: Any) -> bool:
    """Return whether *settings* do; if not, the project has a Redis of its own."""
    return any(settings.get(name) for name in _REDIS)


class Project:
    """What a project and its spider set.

    :param settings: Scrapy's, with what the command line says.
    :param spidercls: whose ``custom_settings`` hold as well.
    :ivar settings: as a crawl of the spider has them.
    """

    def __init__(self, settings: Any, spidercls: type[Spider]) -> None:
        self.settings = settings.copy()
        spidercls.update_settings(self.settings)

    @property
    def has_our_scheduler(self) -> bool:
        """Whether a crawl of it is shared."""
        addons = self.settings.getdict("ADDONS")
        if any(load_object(addon) is Addon for addon, place in addons.items() if place is not None):
            return True
        # Every command of Scrapy's loads this module, and few need that one.
        from ..scheduler import Scheduler

        # To issubclass(), whatever has the methods of a scheduler is one: Scrapy's metaclass has it so.
        scheduler = self.settings.get("SCHEDULER")
        try:
            return Scheduler in getattr(load_object(scheduler), "__mro__", ())
        except (ImportError, NameError, ValueError, TypeError) as error:
            raise SettingError(
                f"SCHEDULER is {scheduler!r}, which cannot be loaded: {error}. Correct the path"
            ) from None

    def feed_storages(self) -> str:
        """Return ``FEED_STORAGES`` with that of parts, in JSON."""
        paths = {
            scheme: value if isinstance(value, str | None) else f"{value.__module__}.{value.__qualname__}"
            for scheme, value in self.settings.getdict("FEED_STORAGES").items()
        }
        return json.dumps({**paths, PART_SCHEME: STORAGE})


class Arguments:
    """Makes the command lines of the workers.

    :param spider: the spider's name.
    :param settings: what ``-s`` is, and :param spider_arguments: what ``-a`` is, each as ``NAME=VALUE``.
    """

    def __init__(self, spider: str, settings: Sequence[str], spider_arguments: Sequence[str]) -> None:
        self._spider = spider
        self._settings = list(settings)
        self._spider_arguments = list(spider_arguments)
        self._outputs: list[str] = []
        # Scrapy takes only one of both.
        self._flag = "-o"
        self.feeds: list[Feed] = []

    def set(self, name: str, value: str) -> None:
        """Add a setting."""
        self._settings.append(f"{name}={value}")

    def write(self, project: Project, outputs: list[str], overwrite: bool, folder: Path) -> None:
        """Have the workers write their items to *outputs*: what ``-o`` says, or ``-O``.

        :param folder: where the parts of files are until the end.
        :raises SettingError: if several workers cannot write one of them.
        :raises scrapy.exceptions.UsageError: if Scrapy would refuse it.
        """
        self._flag = "-O" if overwrite else "-o"
        encoding = project.settings.get("FEED_EXPORT_ENCODING") or "utf-8"
        plain = project.settings.copy()
        plain.set("FEEDS", {}, "cmdline")
        kind: dict[str, Any] = {"overwrite_output": outputs} if overwrite else {}
        feeds = feed_process_params_from_cli(plain, [] if overwrite else outputs, **kind)
        for uri, options in feeds.items():
            if path := path_of(uri):
                self.feeds.append(Feed(path, options["format"], folder, encoding))
            elif "%(worker)" in uri:
                self._outputs += [self._flag, f"{uri}:{options['format']}"]
            else:
                where = "-" if uri == "stdout:" else uri
                raise SettingError(
                    f"-o {where}: several workers cannot write there together. Write a file, or put "
                    "%(worker)s into the name"
                )
        if self.feeds:
            self.set("FEED_STORAGES", project.feed_storages())

    def of(self, process: str) -> list[str]:
        """Return what follows ``scrapy`` for the process of this name."""
        parts = [text for feed in self.feeds for text in (self._flag, feed.option(process))]
        settings = [text for setting in self._settings for text in ("-s", setting)]
        own = [text for argument in self._spider_arguments for text in ("-a", argument)]
        return ["crawl", self._spider, *own, *settings, *self._outputs, *parts]
