"""The PostgreSQL of the recipes, on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from ..support.crawl import wait_until
from ..support.postgres import (
    PrivatePostgres,
    has_psycopg,
    server_programs,
    start_consumer,
    stream_consumer,
)

PROGRAMS = server_programs()

pytestmark = [
    pytest.mark.single("a recipe is run on one kind of server"),
    pytest.mark.skipif(PROGRAMS is None, reason="this machine has no PostgreSQL server"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def postgres() -> Iterator[PrivatePostgres]:
    assert PROGRAMS is not None
    with PrivatePostgres(PROGRAMS) as server:
        yield server


@pytest.mark.parametrize(
    "of_psycopg",
    [
        pytest.param(
            True,
            id="psycopg",
            marks=pytest.mark.skipif(not has_psycopg(), reason="psycopg is not installed"),
        ),
        pytest.param(False, id="psql"),
    ],
)
def test_the_consumer_of_the_stream_stores_an_item_once_that_it_is_given_twice(
    of_psycopg: bool, postgres: PrivatePostgres, server: redis.Redis, redis_url: str, tmp_path: Path
) -> None:
    name = "of_psycopg" if of_psycopg else "of_psql"
    program, log = tmp_path / "consume.py", tmp_path / "log"
    program.write_text(stream_consumer(uses_postgres=True))
    environment = {"REDIS_URL": redis_url, **postgres.environment(of_psycopg)}
    item = '{"url": "https://www.example.com/0", "title": "%s"}'
    titles = [f"{name} O'Reilly", f"{name} %s", f"{name} \\\\"]
    for _ in range(2):
        for number, title in enumerate(titles):
            server.xadd("pages:items", {"item": item % title, "id": f"{name}-{number}"})
    consumer = start_consumer(program, "pages", environment, log)
    try:
        wait_until(lambda: not server.xlen("pages:items") or consumer.poll() is not None, 30)
    finally:
        consumer.kill()
        consumer.wait()
    stored = postgres.column(f"SELECT title FROM pages WHERE id LIKE '{name}-%'")
    assert stored == {f"{name} O'Reilly": 1, f"{name} %s": 1, f"{name} \\": 1}, log.read_text()
