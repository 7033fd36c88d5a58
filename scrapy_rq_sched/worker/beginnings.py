"""The request and the seed that were begun last. A suspect is reported to Redis before it is begun.

A suspect is a request after which several workers have died. These reports tell which of its requests a dead
worker had begun.
"""

from __future__ import annotations

from itertools import chain

from ..frontier.messages import Batch, suspicious
from ..frontier.replies import Lease, Reply
from .part import Part
from .ready import Ready
from .requests import Requests


def _order(lease: str) -> tuple[int, ...]:
    """Return the position of a lease, by its name, among those of its worker; an empty name is the first."""
    return tuple(map(int, lease.split("."))) if lease else ()


class Beginnings(Part):
    """The last begun request and the last begun seed, and the ones that Redis knows.

    :param max_deliveries: the number of dead workers after which a request is set aside.
    :param ready: the leases that are not begun, and :param requests: those that are.
    :ivar has_news: whether a suspect waits for its report to reach Redis.
    """

    def __init__(self, max_deliveries: int, ready: Ready, requests: Requests) -> None:
        self._ready, self._requests = ready, requests
        self._suspicious = suspicious(max_deliveries)
        self.has_news = False
        self._begun = self._sown = ""
        # A suspect that must be reported to Redis before it is begun.
        self._announced = self._said_announced = self._known_announced = ""
        self._said_sown = self._known_sown = ""

    def is_suspect(self, lease: Lease) -> bool:
        """Return whether so many workers died of the request of *lease* that it must be begun alone."""
        return lease.deaths >= self._suspicious

    def begun(self, lease: Lease) -> None:
        """Note that the request of *lease* is begun."""
        self._begun = max(self._begun, lease.name, key=_order)

    def is_known(self, lease: Lease) -> bool:
        """Return whether Redis knows that *lease* is about to be begun, if it is a suspect."""
        return not self.is_suspect(lease) or lease.name == self._known_announced

    def announce(self, lease: Lease) -> None:
        """Report to Redis that *lease*, a suspect, is about to be begun."""
        if self._announced != lease.name:
            self._announced = lease.name
            self.begun(lease)
            self.has_news = True

    def sow(self, lease: Lease) -> None:
        """Note that requests are about to be made of the seed of *lease*."""
        self._sown = lease.name
        if self.is_suspect(lease):
            self.has_news = True

    def may_sow(self, lease: Lease) -> bool:
        """Return whether requests may be made of the seed of *lease* now."""
        # The report of a later seed includes this one.
        return not self.is_suspect(lease) or _order(lease.name) <= _order(self._known_sown)

    def fill(self, batch: Batch) -> None:  # noqa: D102
        batch.suspects = sum(map(self.is_suspect, chain(self._ready, self._requests.leases())))
        batch.begun, batch.sown = self._begun, self._sown
        last = _order(self._begun)
        batch.passed = [
            lease.name for lease in self._ready if _order(lease.name) < last and lease.name != self._announced
        ]
        self._said_announced, self._said_sown = self._announced, self._sown
        self.has_news = False

    def applied(self, reply: Reply) -> None:  # noqa: D102
        self._known_announced, self._known_sown = self._said_announced, self._said_sown
