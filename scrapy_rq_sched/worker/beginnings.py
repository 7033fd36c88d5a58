"""Which request and which seed were begun last; of a suspect, Redis has to know that before it is begun.

A request that its workers often die of is a suspect. Without this, nobody could tell which of the requests
that a dead worker had in hand it had begun.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..frontier.messages import Batch, suspicious
from ..frontier.replies import Lease


def _order(lease: str) -> tuple[int, ...]:
    """Return where the lease of this name stands among its worker's; before all if it is empty."""
    return tuple(map(int, lease.split("."))) if lease else ()


class Beginnings:
    """The last request and the last seed that were begun, and what Redis knows of that.

    :param max_deliveries: how many deaths of its workers have a request set aside.
    :ivar has_news: whether a suspect waits until Redis has heard of it.
    """

    def __init__(self, max_deliveries: int) -> None:
        self._suspicious = suspicious(max_deliveries)
        self.has_news = False
        self._begun = self._sown = ""
        # A suspect that Redis is to hear of before it is begun.
        self._announced = self._said_announced = self._known_announced = ""
        self._said_sown = self._known_sown = ""

    def is_suspect(self, lease: Lease) -> bool:
        """Return whether so many workers died of *lease*'s request that it is begun alone."""
        return lease.deaths >= self._suspicious

    def begun(self, lease: Lease) -> None:
        """Note that the request of *lease* is begun."""
        self._begun = max(self._begun, lease.name, key=_order)

    def may_begin(self, lease: Lease) -> bool:
        """Return whether *lease*, the next that is ready, may be begun; if not, Redis hears of it first."""
        if not self.is_suspect(lease) or lease.name == self._known_announced:
            return True
        if self._announced != lease.name:
            self._announced = lease.name
            self.begun(lease)
            self.has_news = True
        return False

    def sow(self, lease: Lease) -> None:
        """Note that requests are about to be made of the seed of *lease*."""
        self._sown = lease.name
        if self.is_suspect(lease):
            self.has_news = True

    def may_sow(self, lease: Lease) -> bool:
        """Return whether requests may be made of *lease*'s seed now."""
        # Whatever was said of a later seed was said of this one, too.
        return not self.is_suspect(lease) or _order(lease.name) <= _order(self._known_sown)

    def fill(self, batch: Batch, ready: Iterable[Lease]) -> None:
        """Put what was begun last into *batch*, and consider it said.

        :param ready: the leases that are not begun.
        """
        batch.begun, batch.sown = self._begun, self._sown
        last = _order(self._begun)
        batch.passed = [
            lease.name for lease in ready if _order(lease.name) < last and lease.name != self._announced
        ]
        self._said_announced, self._said_sown = self._announced, self._sown
        self.has_news = False

    def settle(self) -> None:
        """Note that Redis knows what was said."""
        self._known_announced, self._known_sown = self._said_announced, self._said_sown
