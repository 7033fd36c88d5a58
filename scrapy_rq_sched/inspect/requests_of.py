"""Find the requests of one worker."""

from __future__ import annotations

from typing import NamedTuple

from ..codec.values import text_of
from ..connection import server_of
from ..frontier.replies import lease_order
from .entries import Held, Reader
from .view import View


class WorkerRequests(NamedTuple):
    """The requests of a worker, as Redis has them.

    :param begun: the leases that it had begun by its last exchange: first those that most workers died of,
        then those begun last.
    :param unbegun: its other leases. It may have begun some of them since.
    :param taken_over: the number of begun leases that other workers took over because it counts as dead.
    :param exchange: the number of its last exchange; empty if it has left.
    """

    begun: list[Held]
    unbegun: list[Held]
    taken_over: int
    exchange: str


def read_requests(view: View, worker: str) -> WorkerRequests:
    """Return the requests of the worker of this name.

    :raises redis.exceptions.RedisError: if Redis does not answer.
    """
    server, key = server_of(view.server, view.keys.requests), view.keys.worker(worker)
    fields = server.hmget(key, "begun", "sown", "passed", "reclaimed", "exchange")
    begun, sown, passed, reclaimed, exchange = map(text_of, fields)
    # If the worker is only slow, it may still finish these.
    taken_over = sum(name.startswith(b"r:") for name in server.hkeys(key)) if reclaimed else 0
    skipped = set(passed.split())

    def has_begun(held: Held) -> bool:
        last = sown if held.entry.kind == "seed" else begun
        return held.lease not in skipped and lease_order(held.lease) <= lease_order(last)

    leases = sorted(
        Reader(view).held(worker), key=lambda held: (held.deaths, lease_order(held.lease)), reverse=True
    )
    return WorkerRequests(
        [held for held in leases if has_begun(held)],
        [held for held in leases if not has_begun(held)],
        taken_over,
        exchange,
    )
