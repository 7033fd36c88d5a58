"""The Redis that ``scrapy frontier crawl`` has made for a project, and a worker that does not find it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy.settings import Settings

from scrapy_rq_sched.connection import RedisConnectionError
from scrapy_rq_sched.errors import RedisUnreachableError
from scrapy_rq_sched.servers import own_redis
from scrapy_rq_sched.worker import membership


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a project's own Redis, with data in it."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".scrapy" / "redis"
    folder.mkdir(parents=True)
    (folder / "redis.log").touch()
    return folder


def test_a_project_with_a_redis_of_its_own_has_a_hint_with_its_url(folder: Path) -> None:
    assert own_redis.hint(Settings()).endswith(f"set REDIS_URL to '{own_redis.url()}'")


def test_a_project_that_names_a_redis_has_no_hint(folder: Path) -> None:
    assert not own_redis.hint(Settings({"REDIS_HOST": "redis.test"}))


def test_a_project_without_data_has_no_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert not own_redis.hint(Settings())


def test_a_worker_that_does_not_reach_redis_names_the_projects_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cause = RedisConnectionError("refused")

    def refuse(*_: Any) -> None:
        raise RedisUnreachableError("Redis cannot be reached") from cause

    monkeypatch.setattr(membership, "_join", refuse)
    session: Any = SimpleNamespace(crawler=SimpleNamespace(settings=Settings()))
    with pytest.raises(RedisUnreachableError, match=r"^Redis cannot be reached\. No setting names") as error:
        membership.join(session, None)  # type: ignore[arg-type]
    # By the cause, the worker knows whether a later attempt may succeed.
    assert error.value.__cause__ is cause
