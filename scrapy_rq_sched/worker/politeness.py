"""The limits of slots that the fleet keeps."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from ..codec.slot_rules import SlotRule
from ..engine.bridge import EngineBridge
from ..engine.components import is_custom
from ..frontier.replies import Lease, Reply, Standing
from ..frontier.slot_limits import UNLIMITED, SlotLimits
from ..settings import FrontierSettings
from .slot_turns import SlotTurns

logger = logging.getLogger(__name__)

#: A slot that no request has: a rule that matches it matches every slot.
NOBODY = "@"
#: Number of slots whose limits are remembered.
REMEMBERED = 10_000


class Politeness:
    """The limits of slots, from Scrapy's settings, the rules, and commands.

    :param default: the limits of a slot in Scrapy's settings.
    :param others: the limits of the slots that Scrapy's settings name.
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
        self._by_rule: dict[str, bool] = {}
        # Limits that an operator has set while the crawl runs.
        self._set: dict[str, SlotLimits] = {}
        self._set_delay: set[str] = set()
        # Slots whose limits this worker has reported, because the frontier did not know them.
        self._told: set[str] = set()
        #: The limits of every slot without its own limits.
        self.default = self._apply(default, NOBODY)

    def of(self, slot: str) -> SlotLimits:
        """Return the limits of *slot* that the fleet keeps."""
        known = self._set.get(slot) or self._known.get(slot)
        if known is None:
            limits = self._others.get(slot, self._by_settings)
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            known = self._known[slot] = self._apply(limits, slot)
        return known

    def gap_of(self, slot: str) -> float | None:
        """Return the minimum seconds between two requests of *slot*; None if the fleet keeps no delay."""
        if not ("delay" in self._fleet or slot in self._set_delay or self._has_delay_by_rule(slot)):
            return None
        limits = self.of(slot)
        return limits.delay * (1 - limits.jitter)

    def _has_delay_by_rule(self, slot: str) -> bool:
        known = self._by_rule.get(slot)
        if known is None:
            if len(self._by_rule) >= REMEMBERED:
                self._by_rule.clear()
            rule = next((rule for rule in self._rules if rule.fits(slot)), None)
            known = self._by_rule[slot] = rule is not None and rule.delay is not None
        return known

    def take_reply(self, reply: Reply) -> None:
        """Note the limits that an operator has set or reset."""
        if reply.standing == Standing.REWOUND:
            self._told.clear()
        for lease in reply.leases:
            self._set.pop(lease.slot, None)
            self._set_delay.discard(lease.slot)
            if lease.begin:
                self._told.discard(lease.slot)
        self._set.update(reply.limits)
        self._set_delay.update(reply.with_delay)

    def is_news(self, lease: Lease) -> bool:
        """Return whether to report the limits of the slot of *lease*, which came without a time.

        They are reported once: workers with different settings would keep replacing each other's limits.
        """
        if lease.begin or not lease.slot or lease.slot in self._told or self.of(lease.slot) == UNLIMITED:
            return False
        if len(self._told) >= REMEMBERED:
            self._told.clear()
        self._told.add(lease.slot)
        return True

    def own(self, slots: Iterable[str]) -> dict[str, SlotLimits]:
        """Return the limits of the *slots* that differ from the default."""
        limits = {slot: self.of(slot) for slot in slots if slot and slot not in self._set}
        return {slot: its for slot, its in limits.items() if its != self.default}

    def _apply(self, limits: SlotLimits, slot: str) -> SlotLimits:
        kept = SlotLimits(
            limits.delay if "delay" in self._fleet else 0.0,
            limits.jitter if "delay" in self._fleet else 0.0,
            limits.concurrency if "concurrency" in self._fleet else 0,
        )
        # A rule of FRONTIER_SLOTS always holds for the fleet.
        rule = next((rule for rule in self._rules if rule.fits(slot)), None)
        return kept if rule is None else rule.applied_to(kept)


def politeness_of(
    settings: FrontierSettings, queue: Any, engine: EngineBridge | None, turns: SlotTurns
) -> Politeness:
    """Return the limits that the fleet keeps in this crawl; the downloader then leaves these delays to it.

    :param engine: the engine that drives the crawl; None if the scheduler is driven by hand, with no delays.
    """
    if engine is None or not settings.by_slot or is_custom(queue):
        if settings.slots:
            logger.warning(
                "FRONTIER_SLOTS has no effect: requests are not queued by slot, because FRONTIER_BY_SLOT is "
                "False, SCHEDULER_QUEUE_CLASS is your own class, or the scheduler is used without an engine"
            )
        return Politeness()
    fleet, (default, others) = settings.fleet_limits, engine.slots.by_settings()
    if engine.slots.is_throttled and "delay" in fleet:
        fleet -= {"delay"}
        logger.info("AUTOTHROTTLE_ENABLED is set: each worker keeps and adjusts its own delays")
    politeness = Politeness(default, others, settings.slots, fleet)
    engine.slots.follow(politeness.gap_of, turns.reached_downloader, turns.left_downloader)
    if politeness.default.delay or any(limits.delay for limits in politeness.own(others).values()):
        logger.info(
            "All workers together keep the delay of each slot (%g s by default). To have each worker keep "
            "the delay on its own, set FRONTIER_FLEET_LIMITS = []",
            politeness.default.delay,
        )
    return politeness
