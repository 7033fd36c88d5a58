"""The limits of slots that the fleet keeps, from Scrapy's settings, the rules, and commands."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from ..assembly.queue import is_custom
from ..codec.slot_limits import UNLIMITED, SlotLimits, SlotPolicy
from ..codec.slot_rules import SlotRule
from ..engine.bridge import EngineBridge
from ..engine.throttle import ThrottleSettings
from ..frontier.replies import Reply
from ..settings import FrontierSettings

logger = logging.getLogger(__name__)

#: Number of slots whose limits are remembered.
LIMITS_REMEMBERED = 10_000
#: Seconds for which the limits of other workers hold that the frontier does not name any more: if it has lost
#: its data, these workers may need a moment to join again.
REMEMBERED_FOR = 60.0


class Politeness:
    """The limits of slots, from Scrapy's settings, the rules, and commands.

    :param default: the limits of a slot in Scrapy's settings.
    :param others: the limits of the slots that Scrapy's settings name.
    :param rules: ``FRONTIER_SLOTS``.
    :param fleet: ``FRONTIER_FLEET_LIMITS``: which of these limits all workers keep together.
    :param throttle: the settings of AutoThrottle, if all workers together adjust their delays.
    """

    def __init__(
        self,
        default: SlotLimits = UNLIMITED,
        others: Mapping[str, SlotLimits] | None = None,
        rules: tuple[SlotRule, ...] = (),
        fleet: frozenset[str] = frozenset(),
        throttle: ThrottleSettings | None = None,
    ) -> None:
        #: The settings of AutoThrottle; None if the fleet does not adjust its delays.
        self.throttle = throttle
        if throttle is not None:
            default = replace(default, delay=throttle.start)
        self._by_settings = default
        self._others = dict(others or {})
        self._rules = rules
        self._fleet = fleet
        self._known: dict[str, SlotLimits] = {}
        self._rule_of_slot: dict[str, SlotRule | None] = {}
        self._has_caps = any(rule.max_pages for rule in rules)
        # Limits that an operator has set while the crawl runs.
        self._set: dict[str, SlotLimits] = {}
        self._set_delay: set[str] = set()
        # The slots whose delay the fleet has learnt; and those of which leases were recalled.
        self._learnt: set[str] = set()
        self._recalled: set[str] = set()
        self._has_warned = False
        # Whether other workers have other limits in their settings, which are in force; and those by default.
        self._others_apply = False
        self._in_force: SlotLimits | None = None
        self._in_force_until = 0.0
        #: The same limits, as the frontier applies them.
        self.policy = self._policy()

    def of(self, slot: str) -> SlotLimits:
        """Return the limits of *slot* that the fleet keeps.

        The settings of other workers may name the slot, with others: this worker knows those by default.
        """
        return self._in_force if self._may_be_limited(slot) and self._in_force else self._own(slot)

    def _own(self, slot: str) -> SlotLimits:
        known = self._set.get(slot) or self._known.get(slot)
        if known is None:
            limits = self._others.get(slot, self._by_settings)
            if len(self._known) >= LIMITS_REMEMBERED:
                self._known.clear()
            known = self._known[slot] = self._apply(limits, slot)
        return known

    def gap_of(self, slot: str) -> float | None:
        """Return the minimum seconds between two requests of *slot*; None if the fleet keeps no delay."""
        is_by_others = self._in_force is not None and self._may_be_limited(slot)
        if not (
            is_by_others or "delay" in self._fleet or slot in self._set_delay or self._has_delay_by_rule(slot)
        ):
            return None
        limits = self.of(slot)
        return limits.delay * (1 - limits.jitter)

    @property
    def backs_off(self) -> bool:
        """Whether the fleet obeys what the answers of sites ask for."""
        return "backoff" in self._fleet

    @property
    def obeys_crawl_delays(self) -> bool:
        """Whether the fleet keeps the ``Crawl-delay`` of a robots.txt."""
        return "robots" in self._fleet

    def is_throttled(self, slot: str) -> bool:
        """Return whether the fleet adjusts the delay of *slot*: unless ``FRONTIER_SLOTS`` has one."""
        return self.throttle is not None and not self._has_delay_by_rule(slot)

    def is_learnt(self, slot: str) -> bool:
        """Return whether the delay of *slot* is one that the fleet has learnt from its answers."""
        return slot in self._learnt

    def keeps_own_delay(self, slot: str) -> bool:
        """Return whether the worker's own delay of *slot* holds beside that of :meth:`gap_of`.

        A learnt delay must not replace the delay that a worker keeps by itself, as with AutoThrottle.
        """
        return self.is_learnt(slot) and "delay" not in self._fleet and not self._has_delay_by_rule(slot)

    def needs_turns(self, slot: str) -> bool:
        """Return whether the requests of *slot* may have to wait for turns that the frontier gives."""
        return slot in self._recalled or self.of(slot) != UNLIMITED or self._may_be_limited(slot)

    def delays_outside(self, slot: str) -> bool:
        """Return whether requests of *slot* that do not come from the frontier may have to wait for turns."""
        has_delay = self.gap_of(slot) is not None and self.of(slot).delay > 0
        return slot in self._recalled or has_delay or self._may_be_limited(slot)

    def counts(self, slot: str) -> bool:
        """Return whether the frontier may count the downloads of *slot*."""
        return not self.policy or self.of(slot).concurrency > 0 or self._may_be_limited(slot)

    def _may_be_limited(self, slot: str) -> bool:
        """Return whether other workers' settings may have limits of *slot*, and this worker's have none."""
        return self._others_apply and self._own(slot).is_unlimited

    def caps(self, slots: Iterable[str]) -> dict[str, int]:
        """Return how many pages some of *slots* may have, if the settings have caps for them."""
        if not self._has_caps:
            return {}
        rules = {slot: self._rule(slot) for slot in set(slots) if slot}
        return {slot: rule.max_pages for slot, rule in rules.items() if rule is not None and rule.max_pages}

    def _rule(self, slot: str) -> SlotRule | None:
        """Return the rule of ``FRONTIER_SLOTS`` that applies to *slot*, which holds for the fleet."""
        if slot not in self._rule_of_slot:
            if len(self._rule_of_slot) >= LIMITS_REMEMBERED:
                self._rule_of_slot.clear()
            self._rule_of_slot[slot] = next((rule for rule in self._rules if rule.fits(slot)), None)
        return self._rule_of_slot[slot]

    def _has_delay_by_rule(self, slot: str) -> bool:
        rule = self._rule(slot)
        return rule is not None and rule.delay is not None

    def take_reply(self, reply: Reply) -> None:
        """Note the limits that an operator has set or reset."""
        for lease in reply.leases:
            self._set.pop(lease.slot, None)
            self._set_delay.discard(lease.slot)
            self._learnt.discard(lease.slot)
        self._set.update(reply.limits)
        self._set_delay.update(reply.with_delay)
        self._learnt.update(reply.learnt)
        if len(self._recalled) >= LIMITS_REMEMBERED:
            self._recalled.clear()
        self._recalled.update(reply.recalled)
        if reply.other_limits is not None:
            self._warn_of("the other workers", str(reply.other_limits), self._when_joining())
        now, in_force = time.monotonic(), reply.limits_in_force
        if in_force is not None:
            self._others_apply, self._in_force, self._in_force_until = True, in_force, now + REMEMBERED_FOR
            self._warn_of(
                "a worker that joined later", str(in_force), "the limits of the worker that joined last"
            )
        elif now > self._in_force_until:
            self._others_apply, self._in_force = False, None

    def joined(self, other: str, limits: str) -> None:
        """Note that this worker joins another one, with other *limits* by default, in words."""
        self._others_apply = True
        self._warn_of(f"worker {other}", limits, self._when_joining())

    def _when_joining(self) -> str:
        """Return which limits apply when a worker with these settings joins, in words."""
        if not self.policy:
            return "the limits of the others"
        if not self.policy.default.delay:
            return "this worker's limits where it has some, and else those of the others"
        return "this worker's limits, because it joined last"

    def _warn_of(self, others: str, limits: str, kept: str) -> None:
        if self._has_warned:
            return
        self._has_warned = True
        its = str(self.policy.default)
        logger.warning(
            "The limits of slots in this worker's settings are not those of %s (%s). All workers keep %s. "
            "Give all workers the same DOWNLOAD_DELAY, DOWNLOAD_SLOTS, FRONTIER_SLOTS and "
            "FRONTIER_FLEET_LIMITS",
            others,
            f"by default {its} here, {limits} there" if its != limits else "other limits of single slots",
            kept,
        )

    def _policy(self) -> SlotPolicy:
        default = self._kept(self._by_settings)
        patterns = tuple(
            (rule.pattern.lower(), rule.applied_to(default)) for rule in self._rules if rule.is_glob
        )
        names = {*self._others, *chain.from_iterable(rule.names for rule in self._rules if not rule.is_glob)}
        named = {name: self.of(name) for name in sorted(names)}
        # A pattern could fit a name, so then all names are needed.
        return SlotPolicy(
            default, {name: its for name, its in named.items() if patterns or its != default}, patterns
        )

    def _apply(self, limits: SlotLimits, slot: str) -> SlotLimits:
        rule = self._rule(slot)
        return self._kept(limits) if rule is None else rule.applied_to(self._kept(limits))

    def _kept(self, limits: SlotLimits) -> SlotLimits:
        """Return the part of *limits* that the fleet keeps."""
        return SlotLimits(
            limits.delay if "delay" in self._fleet else 0.0,
            limits.jitter if "delay" in self._fleet else 0.0,
            limits.concurrency if "concurrency" in self._fleet else 0,
        )


def politeness_of(
    settings: FrontierSettings,
    queue: Any,
    engine: EngineBridge | None,
    sent: Callable[[str, float, float], None],
) -> Politeness:
    """Return the limits that the fleet keeps in this crawl; the downloader then leaves these delays to it.

    :param engine: the engine that drives the crawl; None if the scheduler is driven by hand, with no delays.
    :param sent: see :meth:`DownloaderSlots.follow`.
    """
    if engine is None or not settings.by_slot or is_custom(queue):
        if settings.slots:
            logger.warning(
                "FRONTIER_SLOTS has no effect: requests are not queued by slot, because FRONTIER_BY_SLOT is "
                "False, SCHEDULER_QUEUE_CLASS is your own class, or the scheduler is used without an engine"
            )
        return Politeness()
    fleet, (default, others, without_delay) = settings.fleet_limits, engine.slots.by_settings()
    throttle = engine.throttle(default.delay) if {"autothrottle", "delay"} <= fleet else None
    if throttle is not None:
        others.update({slot: replace(others[slot], delay=throttle.start) for slot in without_delay})
        logger.info(
            "AUTOTHROTTLE_ENABLED is set: all workers together keep one delay for each slot, and adjust it "
            "so that %g of its requests are under way at a time",
            throttle.target,
        )
    elif engine.slots.is_throttled and "delay" in fleet:
        fleet -= {"delay"}
        logger.info("AUTOTHROTTLE_ENABLED is set: each worker keeps and adjusts its own delays")
    politeness = Politeness(default, others, settings.slots, fleet, throttle)
    engine.slots.follow(politeness.gap_of, politeness.keeps_own_delay, sent)
    policy = politeness.policy
    every_slot = next((limits for glob, limits in policy.patterns if glob == "*"), policy.default)
    if every_slot.delay or any(politeness.of(slot).delay for slot in others):
        logger.info(
            "All workers together keep the delay of each slot (%g s by default). To have each worker keep "
            "the delay on its own, set FRONTIER_FLEET_LIMITS = []",
            every_slot.delay,
        )
    return politeness
