"""A frontier that has something of everything, and a dashboard that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis
from playwright.sync_api import Browser
from scrapy.settings import Settings

from scrapy_rq_sched.dashboard import create_app
from scrapy_rq_sched.inspect import View

from ..support.client import Client
from .asgi import TOKEN, log_in
from .browser import WIDE, Watched, chromium, serving
from .filled import fill

Make = Callable[..., Any]
Open = Callable[..., Watched]


@pytest.fixture
def make(redis_url: str) -> Make:
    """Return a dashboard of the test's Redis. If it needs a login, the tests are logged in by its link."""

    def app(settings: dict[str, Any] | None = None, **options: Any) -> Any:
        settings = {"REDIS_URL": redis_url, **(settings or {})}
        has_login = "FRONTIER_DASHBOARD_PASSWORD" in settings or "authenticate" in options
        if has_login or not options.get("actions"):
            return create_app(Settings(settings), **options)
        made = create_app(Settings(settings), token=TOKEN, **options)
        log_in(made)
        return made

    return app


@pytest.fixture
def shop(server: redis.Redis, redis_url: str) -> list[Client]:
    """The workers of a frontier with something of everything."""
    return fill(server, redis_url)


@pytest.fixture
def view(redis_url: str, shop: list[Client]) -> View:
    return View.from_settings(Settings({"REDIS_URL": redis_url}), "shop")


@pytest.fixture
def app(make: Make, shop: list[Client]) -> Any:
    """A dashboard that may steer it."""
    return make(actions=True)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as one:
        yield one


@pytest.fixture
def look(browser: Browser) -> Iterator[Open]:
    """Return a page of an application; after the test nothing may have been wrong with it."""
    opened: list[Watched] = []
    with ExitStack() as stack:

        def open_page(
            app: Any, path: str = "", script: str = "", is_logged_in: bool = True, **options: Any
        ) -> Watched:
            url = stack.enter_context(serving(app))
            page = browser.new_page(viewport=options.pop("viewport", WIDE), **options)
            stack.callback(page.close)
            page.set_default_timeout(30_000)
            if script:
                page.add_init_script(script)
            # The tests of the login begin without a session.
            if is_logged_in:
                page.request.get(f"{url}{path}/?token={TOKEN}")
            opened.append(Watched(page, f"{url}{path}/"))
            return opened[-1]

        yield open_page
        for watched in opened:
            assert not watched.problems
