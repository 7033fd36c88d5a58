"""What the tests share: one real Redis for the session, emptied for each test, and fleets on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from scrapy.settings import default_settings
from scrapy.utils.reactor import install_reactor

from scrapy_rq_sched.embedded import PrivateRedis

from .client import Client, Join
from .crawl import Fleet

#: The setting of Redis that bounds what a compact filter's buckets may hold.
INTSETS = "set-max-intset-entries"


def pytest_configure() -> None:
    # A Scrapy that cannot do without a reactor does not make a crawler before there is one.
    if not hasattr(default_settings, "TWISTED_REACTOR_ENABLED"):
        install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")


@pytest.fixture(scope="session")
def private_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateRedis]:
    """A real server. If there is none, tests fail: they do not skip."""
    with PrivateRedis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def server(private_redis: PrivateRedis) -> Iterator[redis.Redis]:
    """A client of the real server, with nothing in it."""
    client = redis.Redis.from_url(private_redis.url)
    client.flushall()
    client.config_set(INTSETS, 512)
    yield client
    client.close()


@pytest.fixture
def redis_url(private_redis: PrivateRedis, server: redis.Redis) -> str:
    """The address of the real server, with nothing in it."""
    return private_redis.url


@pytest.fixture
def fleet(tmp_path: Path, redis_url: str) -> Iterator[Fleet]:
    """Workers on the real server."""
    workers = Fleet(tmp_path, redis_url)
    yield workers
    workers.stop()


@pytest.fixture(params=["priority", "fifo", "lifo"])
def discipline(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def join(server: redis.Redis, request: pytest.FixtureRequest) -> Join:
    chosen = request.getfixturevalue("discipline") if "discipline" in request.fixturenames else "priority"

    def make(
        name: str = "a",
        lease: float = 30.0,
        deaths: int = 5,
        dupefilter: str = "exact",
        bounds: Any = None,
        **options: Any,
    ) -> Client:
        return Client(server, name, chosen, lease, deaths, dupefilter, **(bounds or {})).open(**options)

    return make
