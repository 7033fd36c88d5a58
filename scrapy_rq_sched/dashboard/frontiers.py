"""The frontiers that the dashboard shows, by name."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from typing import Any

from scrapy import Spider

from .. import connection
from ..assembly.keys import load_keys
from ..errors import FrontierError
from ..inspect import View, find_frontiers
from ..inspect.project_spiders import ProjectSpiders
from ..settings import FrontierSettings

logger = logging.getLogger(__name__)

#: Seconds between two searches for frontiers, at least.
SEARCH = 30.0


class Frontiers:
    """The frontiers of a Redis, and those of a project's spiders. All of its methods wait for Redis.

    A frontier has the name of its spider. If a spider has several frontiers, the one at the keys of the
    settings has this name, and the name of each other frontier is the key of its queue.

    :param settings: Scrapy's settings.
    :param spider: the only spider to show; by default, all spiders are shown.
    :param redis_key: the key of its seeds, if it is not the one of the spider's class.
    """

    def __init__(self, settings: Any, spider: str | None = None, redis_key: str | None = None) -> None:
        self._settings = settings
        self._only = spider
        self._redis_key = redis_key
        self._server = connection.get_client(settings)
        self._read = FrontierSettings.from_settings(settings)
        self._loader = ProjectSpiders(settings)
        for problem in self._loader.problems:
            logger.warning("%s. The page is without its spiders", problem)
        self._lock = threading.Lock()
        self._views: dict[str, View] = {}
        self._searched = -SEARCH

    def describe(self, error: connection.RedisError | None) -> str:
        """Return in one line how Redis failed.

        :param error: the error; None if Redis has not answered yet.
        """
        if error is None:
            where = connection.address(self._server)
            return f"Redis at {where} has not answered yet. Check REDIS_URL and the network"
        return connection.describe_error(self._server, error)

    def find(self) -> list[str]:
        """Return the names of all frontiers. For this, Redis goes through the names of all its keys.

        :raises redis.exceptions.RedisError: if Redis does not answer.
        """
        if self._only is not None:
            return [self._only]
        by_spider: dict[str, list[View]] = defaultdict(list)
        for view in find_frontiers(self._settings, self._server):
            by_spider[view.spider].append(view)
        found: dict[str, View] = {}
        for spider, views in by_spider.items():
            cls = self._class(spider)
            # Any frontier may claim to be a spider's: the name is for the one at the keys of the settings.
            usual = self._usual_queue(spider)
            for view in views:
                requests = view.keys.requests
                found[spider if requests == usual else requests] = view.of_spider(cls)
        for spider in self._loader.list():
            if spider not in found:
                found[spider] = self._of_spider(spider)
        with self._lock:
            # Known frontiers keep their connections.
            self._views = {name: self._views.get(name, view) for name, view in found.items()}
            self._searched = time.monotonic()
        return sorted(found)

    def existing(self, most: int) -> list[View]:
        """Return the first *most* frontiers that exist, of those that are known.

        One that cannot be read, as with a key of another type, is left out.

        :raises redis.exceptions.RedisError: if Redis does not answer.
        """
        with self._lock:
            names = sorted(self._views)
        found = []
        for name in (names or self.find())[:most]:
            with suppress(connection.ResponseError, FrontierError):
                view = self.view(name)
                if view is not None and view.exists:
                    found.append(view)
        return found

    def view(self, name: str) -> View | None:
        """Return the frontier called *name* in its present state; None if it does not exist.

        :raises redis.exceptions.RedisError: if Redis does not answer.
        """
        if self._only is not None and name != self._only:
            return None
        known = self._known(name)
        view = (known or self._of_spider(name)).as_it_is_now(self._redis_key)
        is_wanted = known is not None or name == self._only or name in self._loader.list()
        if is_wanted or view.exists or view.has_traces:
            with self._lock:
                return self._views.setdefault(name, view) if known is None else view
        # The name may be the key of a queue. Names that lead nowhere are not kept.
        if time.monotonic() - self._searched < SEARCH:
            return None
        self.find()
        known = self._known(name)
        return known and known.as_it_is_now(self._redis_key)

    def _known(self, name: str) -> View | None:
        with self._lock:
            return self._views.get(name)

    def _of_spider(self, spider: str) -> View:
        view = View.without_meta(self._settings, spider, self._class(spider), self._redis_key)
        if connection.address(view.server) != connection.address(self._server):
            return view  # its class sets another Redis
        connection.close(view.server)
        return replace(view, server=self._server)

    def _usual_queue(self, spider: str) -> str:
        if spider in self._loader.list():
            return self._of_spider(spider).keys.requests
        return load_keys(self._read, self._server, spider).requests

    def _class(self, spider: str) -> type[Spider] | None:
        return self._loader.load(spider)
