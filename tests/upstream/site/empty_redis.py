"""A plugin for pytest: each test begins with an empty Redis, as if no other test had crawled before."""

import pytest
import redis
from sitecustomize import own_redis


@pytest.fixture(autouse=True)
def _empty_redis() -> None:
    with redis.Redis.from_url(own_redis()) as server:
        server.flushdb()
