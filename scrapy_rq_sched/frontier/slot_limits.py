"""What all workers together may ask of a slot."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SlotLimits:
    """What all workers together may ask of a slot.

    :param delay: seconds between two requests; 0 is none.
    :param jitter: by which share of the delay it may be shorter or longer.
    :param concurrency: downloads at a time; 0 is any number.
    """

    delay: float = 0.0
    jitter: float = 0.0
    concurrency: int = 0

    def said(self) -> list[float]:
        """Return it as the scripts take it, in milliseconds."""
        return [1000 * self.delay, self.jitter, self.concurrency]

    @classmethod
    def parse(cls, said: list[float]) -> SlotLimits:
        """Return what the scripts say in the same form."""
        delay, jitter, concurrency = said
        return cls(delay / 1000, jitter, int(concurrency))


#: A slot that has none.
UNLIMITED = SlotLimits()
