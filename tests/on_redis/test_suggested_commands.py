"""The commands that a command suggests can be pasted into a shell, whatever the spider is called."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.commands.action import Action, Context
from scrapy_rq_sched.commands.edit import Clear, Drain, Pause, Resume, Stop
from scrapy_rq_sched.commands.failed import Failed
from scrapy_rq_sched.commands.output import Output
from scrapy_rq_sched.commands.seed import Seed
from scrapy_rq_sched.commands.slots import SlotsAction
from scrapy_rq_sched.commands.status import Status, Workers
from scrapy_rq_sched.errors import FrontierError

SPIDER = "my shop"
NO_OPTIONS: dict[str, Any] = {
    "spider": SPIDER,
    "json": False,
    "watch": None,
    "force": False,
    "history": False,
    "error": None,
    "worker": None,
    "file": None,
    "seeds": ["http://a.test/"],
    "priority": None,
    "meta": None,
    "skip_invalid": False,
    "reason": None,
    "url": None,
    "id": "x",
    "requeue": False,
    "forget": False,
    "counts": False,
    "most": 20,
    "what": ["block", "a.test", "10m"],
    "blocked": False,
    "keep": (),
    "yes": False,
    "dry_run": False,
}


@pytest.fixture
def shop(server: redis.Redis) -> redis.Redis:
    """A frontier with a worker."""
    meta = {"format": "4", "epoch": "1", "requests_key": f"{SPIDER}:requests", "spider": SPIDER}
    server.hset(f"{SPIDER}:meta", mapping=meta)
    server.zadd(f"{SPIDER}:workers", {"w": 10**15})
    server.zadd(f"{SPIDER}:requests", {b'{"url":"http://a.test/"}': 0})
    return server


def said(action: Action, redis_url: str, capsys: pytest.CaptureFixture[str], **options: Any) -> str:
    settings = Settings({"REDIS_URL": redis_url})
    try:
        action.run(Context(settings, Output()), argparse.Namespace(**{**NO_OPTIONS, **options}))
    except FrontierError as error:
        return str(error)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("action", "suggested"),
    [
        (Pause(), "frontier resume"),
        (Drain(), "frontier resume"),
        (Clear(), "frontier stop"),
        (Failed(), "frontier failed"),
        (SlotsAction(), "frontier slots"),
    ],
    ids=lambda value: value.name if isinstance(value, Action) else "",
)
def test_a_suggested_command_quotes_the_spider(
    shop: redis.Redis, redis_url: str, capsys: pytest.CaptureFixture[str], action: Action, suggested: str
) -> None:
    assert f"scrapy {suggested} 'my shop'" in said(action, redis_url, capsys)


def test_one_worker_is_one_worker(
    shop: redis.Redis, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "1 worker will begin no page" in said(Pause(), redis_url, capsys)
    assert "paused, with 1 worker. To resume it: scrapy frontier resume 'my shop'" in said(
        Seed(), redis_url, capsys
    )
    assert "1 worker will begin pages again" in said(Resume(), redis_url, capsys)
    assert "has 1 worker" in said(Clear(), redis_url, capsys)


# "(--dry-run)" would follow on the command's line, which is there to be copied.
@pytest.mark.parametrize("change", [{"workers": 0}, {"state": "paused"}], ids=["no worker", "paused"])
def test_a_plan_suggests_no_command(
    shop: redis.Redis, redis_url: str, capsys: pytest.CaptureFixture[str], change: dict[str, Any]
) -> None:
    if "state" in change:
        shop.hset(f"{SPIDER}:meta", mapping=change)
    else:
        shop.delete(f"{SPIDER}:workers")
    for action in (Seed(), Pause(), SlotsAction()):
        plan = said(action, redis_url, capsys, dry_run=True)
        assert (plan.endswith(" (--dry-run)\n"), "scrapy " in plan) == (True, False)


def test_no_worker_is_alive(shop: redis.Redis, redis_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    shop.delete(f"{SPIDER}:workers")
    assert "Start one: scrapy crawl 'my shop'" in said(Seed(), redis_url, capsys)
    assert "No worker is alive. Start one: scrapy crawl 'my shop'" in said(Status(), redis_url, capsys)
    assert said(Workers(), redis_url, capsys) == "Spider my shop has no workers\n"
    for action in (Pause(), Drain(), Resume(), Stop()):
        assert "o worker is alive" in said(action, redis_url, capsys)
    # It was drained, and resumed, before it was stopped.
    said(Pause(), redis_url, capsys)
    command = said(Stop(), redis_url, capsys).rpartition(": ")[2]
    assert shlex.split(command) == ["scrapy", "frontier", "resume", SPIDER]
