"""A worker of the scripts' tests: it says what a test has it say."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import redis

from scrapy_rq_sched.frontier import Batch, Finished, Frontier, Lease, Limits, Push, Reply
from scrapy_rq_sched.keys import Keys

MADE_WITH = {"SCHEDULER_SERIALIZER": "json"}


class Client:
    """A worker that says what a test has it say."""

    def __init__(
        self, server: redis.Redis, name: str, discipline: str, lease: float, deaths: int, **bounds: Any
    ) -> None:
        limits = Limits(lease, deaths, **bounds)
        self.frontier = Frontier(server, Keys("s"), name, discipline, limits)
        self.name = name
        self.number = 0

    def open(self, **options: Any) -> Client:
        self.frontier.open(MADE_WITH, **options)
        return self

    def say(self, **said: Any) -> Reply:
        self.number += 1
        return self.repeat(**said)

    def repeat(self, **said: Any) -> Reply:
        said.setdefault("in_hand", 1)  # whoever holds nothing says so
        said["finished"] = [Finished(name) for name in said.get("finished", [])]
        return self.frontier.exchange(Batch(self.number, **said))

    def push(self, *names: str, mode: Any = "filter", priority: int = 0) -> Reply:
        return self.say(pushes=[Push(mode, f"fp-{name}", priority, name.encode()) for name in names])

    def take(self, want: int) -> list[Lease]:
        return self.say(want=want).leases


Join = Callable[..., Client]


def payloads(leases: list[Lease]) -> list[str]:
    return [lease.payload.decode() for lease in leases]


def failed(server: redis.Redis) -> list[dict[str, Any]]:
    return [json.loads(entry) for entry in server.lrange("s:failed", 0, -1)]
