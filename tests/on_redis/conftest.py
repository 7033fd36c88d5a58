"""Fixtures of several tests with a real Redis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.inspect.slots import Slots, SlotStatus

from ..support.client import Client, Start


@pytest.fixture
def slots(redis_url: str) -> Callable[[], Slots]:
    return lambda: Slots(View.from_settings(Settings({"REDIS_URL": redis_url}), "s"))


@pytest.fixture
def status(slots: Callable[[], Slots]) -> Callable[[], SlotStatus]:
    return lambda: next(slots().read(["a"]))


@pytest.fixture
def start(server: redis.Redis) -> Start:
    """Return what makes a worker with such a configuration."""

    def make(name: str = "w", lease: float = 30.0, discipline: str = "priority", **config: Any) -> Client:
        return Client(server, name, discipline, lease, 5, **config).open()

    return make


@pytest.fixture(params=["fifo", "lifo", "priority", "order by priority"])
def way(request: pytest.FixtureRequest) -> dict[str, str]:
    """Return a discipline, and the order of slots."""
    if request.param == "order by priority":
        return {"discipline": "priority", "order": "priority"}
    return {"discipline": request.param}
