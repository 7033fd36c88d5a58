"""A frontier that has something of everything, and a dashboard that shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.dashboard import create_app
from scrapy_rq_sched.inspect import View

from ..support.client import Client
from .asgi import TOKEN, log_in
from .filled import fill

Make = Callable[..., Any]


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
