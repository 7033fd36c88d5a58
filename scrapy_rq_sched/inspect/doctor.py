"""Check the connection, the Redis server, the settings and the frontiers, and give advice."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from scrapy import Spider

from .. import connection
from ..assembly.keys import load_keys
from ..errors import FrontierError, SettingError
from ..settings import FrontierSettings
from .finding import Finding, ok, problem, warning
from .frontier_checks import check_frontier
from .server_checks import check_connection, check_server
from .settings_checks import check_settings, with_addon
from .view import View, find_frontiers


def examine(
    settings: Any,
    views: Callable[[], Iterable[View]],
    spider: str = "",
    spidercls: type[Spider] | None = None,
) -> Iterator[Finding]:
    """Run all checks and yield their findings in order. No check keeps Redis busy for long.

    :param settings: Scrapy's settings.
    :param views: returns the frontiers to check; called once Redis has answered.
    :param spider: the spider's name, if only one spider is checked.
    :param spidercls: that spider's class.
    """
    effective = with_addon(settings, spidercls)
    try:
        client = connection.get_client(effective)
    except SettingError as error:
        yield problem("connection", str(error), "Correct the setting. The rest was not checked")
        return
    try:
        yield from _examine(effective, client, views, spider)
    except connection.RedisError as error:
        yield problem(
            "connection",
            connection.describe_error(client, error),
            "Solve this first. The rest was not checked",
        )
    finally:
        connection.close(client)


def _examine(
    settings: Any, client: Any, views: Callable[[], Iterable[View]], spider: str
) -> Iterator[Finding]:
    key, read, refused = _read(settings, client, spider or _some_spider(settings))
    yield check_connection(client, key)
    yield from check_server(client, key, read.wait_replicas)
    if refused is not None:
        yield refused
        return
    yield from check_settings(settings)
    try:
        count = 0
        for count, view in enumerate(views(), 1):  # noqa: B007 - the number of frontiers
            yield from check_frontier(view)
        if not count:
            yield ok(
                "frontiers",
                "this Redis has no frontier: no worker has joined yet, or all crawls have finished",
            )
    except connection.NoPermissionError as error:
        yield warning(
            "frontiers",
            f"not permitted: some or all frontiers were not checked ({error})",
            "Name the spider, or connect as another user (--redis-url)",
        )
    except FrontierError as error:
        yield problem("frontiers", str(error), "Solve this first. The rest was not checked")


def _some_spider(settings: Any) -> str:
    """Return the name of a spider that has a frontier, since this user may use its keys; else ``doctor``."""
    with contextlib.suppress(connection.RedisError, FrontierError):  # the checks report it
        return next((view.spider for view in find_frontiers(settings)), "doctor")
    return "doctor"


def _read(settings: Any, client: Any, spider: str) -> tuple[str, FrontierSettings, Finding | None]:
    """Return a key of the frontier, the settings, and the problem if a setting is not valid."""
    try:
        read = FrontierSettings.from_settings(settings)
        return load_keys(read, client, spider or "doctor").requests, read, None
    except SettingError as error:
        refused = problem(
            "settings", str(error), "Correct it: no crawl can start with it. The rest was not checked"
        )
        hash_tag = connection.needs_hash_tag(client)
        return f"{{{spider}}}:requests" if hash_tag else f"{spider}:requests", FrontierSettings(), refused
