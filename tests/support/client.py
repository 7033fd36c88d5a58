"""A worker of the scripts' tests: it says what a test has it say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import redis

from scrapy_rq_sched.codec.slot_limits import UNLIMITED, SlotLimits, SlotPolicy
from scrapy_rq_sched.connection import needs_hash_tag
from scrapy_rq_sched.frontier.client import Frontier
from scrapy_rq_sched.frontier.fleet_config import FleetConfig
from scrapy_rq_sched.frontier.messages import Batch, Finished, Push, UsedGrants
from scrapy_rq_sched.frontier.replies import Lease, Reply
from scrapy_rq_sched.keys import Keys

MADE_WITH = {"SCHEDULER_SERIALIZER": "json"}


def bounds_of(
    lease: float = 30.0,
    deaths: int = 5,
    slots: SlotLimits = UNLIMITED,
    named: dict[str, SlotLimits] | None = None,
    patterns: dict[str, SlotLimits] | None = None,
    **bounds: Any,
) -> FleetConfig:
    """Return bounds with the limits of every slot, of named slots, and of slots that patterns fit."""
    bounds.setdefault("slot_policy", SlotPolicy(slots, named or {}, tuple((patterns or {}).items())))
    return FleetConfig(lease, deaths, **bounds)


class Client:
    """A worker that says what a test has it say."""

    def __init__(
        self,
        server: redis.Redis,
        name: str,
        discipline: str,
        lease: float,
        deaths: int,
        dupefilter: str = "exact",
        keys: Keys | None = None,
        **bounds: Any,
    ) -> None:
        bound_by = bounds_of(lease, deaths, **bounds)
        self.frontier = Frontier(
            server, keys or Keys("s", hash_tag=needs_hash_tag(server)), name, discipline, bound_by, dupefilter
        )
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

    def push(
        self, *names: str, mode: Any = "filter", priority: int = 0, slot: str = "", **more: Any
    ) -> Reply:
        pushes = [Push(mode, f"fp-{name}", priority, name.encode(), slot, **more) for name in names]
        return self.say(pushes=pushes)

    def take(self, want: int) -> list[Lease]:
        return self.say(want=want).leases


class Eager:
    """Takes each turn of slot "a" ahead of its time, and uses it at once."""

    def __init__(self, worker: Client) -> None:
        self.worker = worker
        self.taken: list[str] = []
        self._grants: dict[str, UsedGrants] = {}
        self._downloaded: dict[str, int] = {}

    @property
    def count(self) -> int:
        return len(self.taken)

    def take(self) -> None:
        leases = self.worker.say(want=9, ahead=200, grants=self._grants, downloaded=self._downloaded).leases
        self.taken += payloads(leases)
        self._grants = {"a": UsedGrants(len(leases), leases[-1].begin)} if leases else {}
        self._downloaded = {"a": len(leases)} if leases else {}


def calls_of(server: redis.Redis, command: str) -> int:
    """Return how often *server* has run *command*, in lower case, since its statistics were reset."""
    return int(server.info("commandstats").get(f"cmdstat_{command}", {}).get("calls", 0))


def compact_member(fingerprint: str) -> bytes:
    """Return the integer that a compact filter keeps of *fingerprint*, as Redis writes it."""
    digest = hashlib.sha1(fingerprint.encode()).hexdigest()
    high, low = int(digest[:8], 16), int(digest[8:16], 16)
    return str((high + 1) * 10**9 + low % 10**9).encode()


def compact_members(server: redis.Redis, key: str = "s:dupefilter") -> list[bytes]:
    """Return all that the compact filter at *key* keeps."""
    names = (name for name in server.scan_iter(f"{key}:*") if not name.endswith(b":frontiers"))
    buckets = [name for name in names if server.type(name) == b"set"]
    return [member for name in buckets for member in server.smembers(name)]


Join = Callable[..., Client]


def payloads(leases: list[Lease]) -> list[str]:
    return [lease.payload.decode() for lease in leases]


def failed(server: redis.Redis, spider: str = "s") -> list[dict[str, Any]]:
    return [json.loads(entry) for entry in server.lrange(f"{spider}:failed", 0, -1)]


#: Makes a worker with a configuration, and lets it join: a fixture of the tests on a Redis.
Start = Callable[..., Client]


def key_of(server: redis.Redis, name: str) -> str:
    """Return the key that the workers' frontier has under this name."""
    return f"{Keys('s', hash_tag=needs_hash_tag(server)).prefix}:{name}"
