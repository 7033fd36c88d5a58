"""The limits of a slot, which all workers keep together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SlotLimits:
    """The limits of a slot, which all workers keep together.

    :param delay: seconds between two requests; 0: no delay.
    :param jitter: the share of the delay, from 0 to 1, by which a single delay may be shorter or longer.
    :param concurrency: downloads at a time; 0: no limit.
    """

    delay: float = 0.0
    jitter: float = 0.0
    concurrency: int = 0

    def said(self) -> list[float]:
        """Return the limits as the scripts take them: the delay in milliseconds, jitter, concurrency."""
        return [1000 * self.delay, self.jitter, self.concurrency]

    @classmethod
    def parse(cls, said: list[float]) -> SlotLimits:
        """Return the limits that a script has sent in the form of :meth:`said`."""
        delay, jitter, concurrency = said
        return cls(delay / 1000, jitter, int(concurrency))


#: The limits of a slot without limits.
UNLIMITED = SlotLimits()
