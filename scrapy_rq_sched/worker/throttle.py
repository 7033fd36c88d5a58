"""AutoThrottle for the fleet: this worker reports the latencies of its responses."""

from __future__ import annotations

from ..engine.answers import Answer
from ..frontier.messages import Batch
from ..frontier.replies import Part
from .slots import Politeness

#: The maximum number of latencies of a slot in an exchange: the delay soon depends on the last ones only.
MOST = 50


class Latencies(Part):
    """Collect latencies for the next exchange.

    :param politeness: the limits of slots, which tell of which slots the fleet adjusts the delay.
    """

    def __init__(self, politeness: Politeness) -> None:
        self._politeness = politeness
        self._news: dict[str, list[float]] = {}

    def hear(self, answer: Answer) -> None:
        """Note the latency of an answer."""
        if answer.latency is None or not self._politeness.is_throttled(answer.slot):
            return
        found = self._news.setdefault(answer.slot, [])
        found.append(round(1000 * answer.latency * (1 if answer.status == 200 else -1), 3))
        del found[:-MOST]

    def fill(self, batch: Batch) -> None:  # noqa: D102
        its = self._politeness.throttle
        if its is not None:
            batch.latencies, self._news = self._news, {}
            batch.throttle = its.target, 1000 * its.least, 1000 * its.most
