"""What a worker reports of an item of a pool."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class ItemReport:
    """News of an item that Redis does not have.

    :ivar answered: when its last answer came, by the monotonic clock; 0: none came.
    :ivar leases: the leases that were answered, if several requests may have the item.
    """

    answered: float = 0.0
    bad: int = 0
    good: bool = False
    rest: float = 0.0
    why: str = ""
    retire: str = ""
    cookies: str | None = None
    leases: list[str] = field(default_factory=list)

    def to_wire(self, now: float) -> dict[str, Any]:
        """Return it as ``lua/store/pool_items.lua`` reads it."""
        wire = {
            "ago": round(1000 * (now - self.answered)) if self.answered else None,
            "bad": self.bad,
            "good": self.good,
            "rest": round(1000 * self.rest),
            "why": self.why,
            "retire": self.retire,
            "leases": self.leases,
        }
        wire = {name: value for name, value in wire.items() if value or (name == "ago" and value is not None)}
        return wire if self.cookies is None else {**wire, "cookies": self.cookies}
