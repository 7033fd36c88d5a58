"""Make the command line of each worker, so that several of them can crawl an existing project."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scrapy import Spider
from scrapy.utils.conf import feed_process_params_from_cli
from scrapy.utils.misc import load_object

from ..addon import Addon
from ..collect.item_file import ItemFile
from ..errors import SettingError
from ..feeds import JOINED
from .feeds import path_of
from .joined_feeds import feeds_of_settings

_SERIALIZER = "REDIS_ITEMS_SERIALIZER"


class Project:
    """The settings of a project and its spider.

    :param settings: Scrapy's settings, with those of the command line.
    :param spidercls: the spider's class, with its ``custom_settings``.
    :ivar settings: the settings in a crawl of the spider.
    :ivar without_spider: the same without the spider's own.
    """

    def __init__(self, settings: Any, spidercls: type[Spider]) -> None:
        self.without_spider = settings
        self.settings = settings.copy()
        spidercls.update_settings(self.settings)

    @property
    def has_our_scheduler(self) -> bool:
        """Whether the project uses our scheduler, so that several workers can share a crawl."""
        addons = self.settings.getdict("ADDONS")
        if any(load_object(addon) is Addon for addon, place in addons.items() if place is not None):
            return True
        # Imported here, because every Scrapy command loads this module.
        from ..scheduler import Scheduler

        # Not issubclass(): to Scrapy's metaclass, any class with a scheduler's methods is a subclass.
        scheduler = self.settings.get("SCHEDULER")
        try:
            return Scheduler in getattr(load_object(scheduler), "__mro__", ())
        except (ImportError, NameError, ValueError, TypeError) as error:
            raise SettingError(
                f"SCHEDULER is {scheduler!r}, which cannot be loaded: {error}. Correct the import path"
            ) from None


class Arguments:
    """Makes the command lines of the workers.

    :ivar files: the files to which the items of all workers go; they are not open.
    :ivar remarks: a line for each feed of ``FEEDS`` of which each worker writes its own, and for each that
        they damage.
    :param spider: the spider's name.
    :param settings: the values of ``-s``, and :param spider_arguments: those of ``-a``, as ``NAME=VALUE``.
    """

    def __init__(self, spider: str, settings: Sequence[str], spider_arguments: Sequence[str]) -> None:
        self._spider = spider
        self._settings = list(settings)
        self._spider_arguments = list(spider_arguments)
        self._outputs: list[str] = []
        # Scrapy refuses a command line with both -o and -O.
        self._flag = "-o"
        self.files: list[ItemFile] = []
        self.remarks: list[str] = []
        # For each feed of FEEDS, its file; None if each worker writes it.
        self._joined: dict[str, ItemFile | None] = {}

    def set(self, name: str, value: str) -> None:
        """Add a setting."""
        self._settings.append(f"{name}={value}")

    def write(self, project: Project, outputs: list[str], overwrite: bool) -> None:
        """Let the workers write their items to *outputs*, the values of ``-o`` or ``-O``, and to ``FEEDS``.

        :param overwrite: whether the option is ``-O``.
        :raises SettingError: if several workers cannot write one of the outputs together.
        :raises scrapy.exceptions.UsageError: if Scrapy would refuse an output.
        """
        self._flag = "-O" if overwrite else "-o"
        plain = project.settings.copy()
        plain.set("FEEDS", {}, "cmdline")
        kind: dict[str, Any] = {"overwrite_output": outputs} if overwrite else {}
        feeds = feed_process_params_from_cli(plain, [] if overwrite else outputs, **kind)
        for uri, options in feeds.items():
            if path := path_of(uri.replace("%(name)s", self._spider)):
                self.files.append(ItemFile(Path(path).resolve(), options, project.settings))
            elif "%(worker)" in uri:
                self._outputs += [self._flag, f"{uri}:{options['format']}"]
            else:
                where = "-" if uri == "stdout:" else uri
                raise SettingError(
                    f"-o {where}: several workers cannot write to the same place. Write to a file, or add "
                    "%(worker)s to the name"
                )
        if self.files and project.settings.get("FRONTIER_ITEMS") and project.settings.get(_SERIALIZER):
            raise SettingError(
                f"-o {self.files[0].path}: the items of a file must be JSON, but FRONTIER_ITEMS stores them "
                f"with {_SERIALIZER}. Remove one of these settings, or -o"
            )
        self._join(project)

    def _join(self, project: Project) -> None:
        """Join the feeds of the settings, as far as one file can have the items of all workers."""
        # In a worker, -o replaces the FEEDS of the spider's own settings.
        settings = project.without_spider if self._outputs else project.settings
        for feed in feeds_of_settings(settings, self._spider):
            if feed.path is not None and any(
                file and file.path == feed.path for file in self._joined.values()
            ):
                raise SettingError(f"FEEDS has the file {feed.path} twice. Remove one of the two")
            # To Scrapy, the options of FEEDS have precedence over -o and -O.
            others = [file for file in self.files if file.path != feed.path]
            file = None
            if feed.is_joined and feed.path is not None:
                file = ItemFile(feed.path, feed.options, settings)
                others.append(file)
            elif len(others) < len(self.files):
                raise SettingError(f"-o {feed.path}: FEEDS has the same file. {feed.remark}")
            self.files = others
            self._joined[feed.uri] = file
            if feed.remark:
                self.remarks.append(feed.remark)

    def set_joined(self) -> None:
        """Name to the workers the feeds of the settings that are dealt with. The files are open by now."""
        if self._joined:
            tokens = {uri: file.token if file else "" for uri, file in self._joined.items()}
            self.set(JOINED, json.dumps(tokens))

    def of(self, process: str) -> list[str]:
        """Return the arguments of ``scrapy`` for the process called *process*."""
        settings = [text for setting in self._settings for text in ("-s", setting)]
        own = [text for argument in self._spider_arguments for text in ("-a", argument)]
        return ["crawl", self._spider, *own, *settings, *self._outputs]
