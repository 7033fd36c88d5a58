"""What the fleet keeps of each slot's limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..codec.slot_rules import SlotRule
from ..frontier.messages import UNLIMITED, SlotLimits

#: A slot that no request has: what fits it fits every slot.
NOBODY = "@"
#: Slots of which the limits are remembered.
REMEMBERED = 10_000


class Politeness:
    """Knows the limits of slots.

    :param default: what Scrapy's settings say of a slot, and :param others: of those that they name.
    :param rules: ``FRONTIER_SLOTS``.
    :param fleet: ``FRONTIER_FLEET_LIMITS``: which of these limits all workers keep together.
    """

    def __init__(
        self,
        default: SlotLimits = UNLIMITED,
        others: Mapping[str, SlotLimits] | None = None,
        rules: tuple[SlotRule, ...] = (),
        fleet: frozenset[str] = frozenset(),
    ) -> None:
        self._by_settings = default
        self._others = dict(others or {})
        self._rules = rules
        self._fleet = fleet
        self._known: dict[str, SlotLimits] = {}
        #: What holds for every slot that has no limits of its own.
        self.default = self._apply(default, NOBODY)

    def of(self, slot: str) -> SlotLimits:
        """Return what the fleet keeps of *slot*."""
        known = self._known.get(slot)
        if known is None:
            limits = self._others.get(slot, self._by_settings)
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            known = self._known[slot] = self._apply(limits, slot)
        return known

    def own(self, slots: Iterable[str]) -> dict[str, SlotLimits]:
        """Return the limits of those of *slots* that have limits of their own."""
        limits = {slot: self.of(slot) for slot in slots if slot}
        return {slot: its for slot, its in limits.items() if its != self.default}

    def _apply(self, limits: SlotLimits, slot: str) -> SlotLimits:
        kept = SlotLimits(
            limits.delay if "delay" in self._fleet else 0.0,
            limits.jitter if "delay" in self._fleet else 0.0,
            limits.concurrency if "concurrency" in self._fleet else 0,
        )
        # A rule of our own says what holds for the fleet.
        rule = next((rule for rule in self._rules if rule.fits(slot)), None)
        return kept if rule is None else rule.applied_to(kept)
