"""The shop, and the project on one of both packages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from . import site
from .copies import ORIGINAL, OURS, Project


@pytest.fixture(scope="module")
def shop() -> Iterator[str]:
    with site.shop() as address:
        yield address


@pytest.fixture(params=[ORIGINAL, OURS])
def project(
    request: pytest.FixtureRequest, tmp_path: Path, shop: str, server: redis.Redis, redis_url: str
) -> Iterator[Project]:
    made = Project(tmp_path, request.param, shop, server, redis_url)
    yield made
    made.stop()
