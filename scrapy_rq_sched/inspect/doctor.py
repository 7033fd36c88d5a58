"""What is wrong with a crawl, and what to do: at the connection, the server, the settings, the frontiers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from scrapy import Spider

from .. import connection
from ..engine.components import load_keys
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
    """Yield what is found, in the order in which it is looked at. Each costs Redis a step of bounded length.

    :param settings: Scrapy's.
    :param views: returns the frontiers to look at; called once Redis has answered.
    :param spider: the name of the one spider that is meant, if one is; *spidercls*: its class.
    """
    effective = with_addon(settings, spidercls)
    try:
        client = connection.get_client(effective)
    except SettingError as error:
        yield problem("connection", str(error), "Correct the setting; nothing else was checked")
        return
    try:
        yield from _examine(effective, client, views, spider)
    except connection.RedisError as error:
        yield problem(
            "connection",
            connection.describe_error(client, error),
            "Correct that first; the rest was not checked",
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
        for count, view in enumerate(views(), 1):  # noqa: B007 - how many there were
            yield from check_frontier(view)
        if not count:
            yield ok(
                "frontiers", "there is none in this Redis: no worker has joined one, or all are finished"
            )
    except connection.NoPermissionError as error:
        yield warning(
            "frontiers",
            f"not permitted: not checked, or not all ({error})",
            "Name the spider, or ask as another user (--redis-url)",
        )
    except FrontierError as error:
        yield problem("frontiers", str(error), "Correct that; the rest was not checked")


def _some_spider(settings: Any) -> str:
    """Return the name of a spider whose keys this user may have: of one that is there, if that is known."""
    with contextlib.suppress(connection.RedisError, FrontierError):  # said by the checks
        return next((view.spider for view in find_frontiers(settings)), "doctor")
    return "doctor"


def _read(settings: Any, client: Any, spider: str) -> tuple[str, FrontierSettings, Finding | None]:
    """Return a key of the frontier, the settings, and what is wrong with these, if anything."""
    try:
        read = FrontierSettings.from_settings(settings)
        return load_keys(read, client, spider or "doctor").requests, read, None
    except SettingError as error:
        refused = problem(
            "settings", str(error), "Correct it: no crawl starts with it, and the rest was not checked"
        )
        hash_tag = connection.needs_hash_tag(client)
        return f"{{{spider}}}:requests" if hash_tag else f"{spider}:requests", FrontierSettings(), refused
