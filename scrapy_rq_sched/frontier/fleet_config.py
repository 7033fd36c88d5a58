"""What a worker's settings say of the whole fleet, as its exchanges need it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..codec.names import joined
from ..codec.pools import Pool, lane_of
from ..codec.slot_limits import SlotPolicy
from .close_limits import NEVER, CloseLimits


@dataclass(frozen=True, slots=True)
class FleetConfig:
    """The configuration of the fleet.

    :param lease_timeout: seconds without an exchange after which a worker counts as dead.
    :param max_deliveries: after how many deaths of its workers a request is set aside.
    :param max_waiting: how many requests may wait; 0: no limit.
    :param policy: how further requests are handled: ``slow`` or ``drop-lowest``.
    :param max_failed: how many entries the failed list keeps.
    :param wait_replicas: how many replicas must have a page's new requests before the page is released.
    :param max_workers: how many workers may run; 0: no limit.
    :param max_workers_policy: whether a further worker waits (``wait``) or is refused (``exit``).
    :param close: the limits after which the whole fleet closes.
    :param stall_timeout: seconds without a page after which a crawl with work to do counts as stalled; 0:
        never.
    :param max_events: how many events are kept; 0: none are recorded.
    :param slot_policy: the limits of slots in this worker's settings.
    :param order: ``slots``: slots take turns; ``priority``: the highest priority of all slots comes first.
    :param max_seed_bytes: how many bytes a seed may have; a larger seed is set aside.
    :param items: ``list`` or ``stream``: how items are stored with the release of their page; empty: they are
        not.
    :param feed: the tokens of the files of ``scrapy frontier crawl`` to which items go, with commas between
        them; empty: to none.
    :param max_items: how many items may wait for a consumer; 0: no limit.
    :param backoff_min_delay: seconds between two requests of a slot after its first bad answer, at least, and
    :param backoff_max_delay: after many of them, at most.
    :param slot_give_up: seconds without an answer after which the requests of a slot are set aside; 0: never.
    :param max_pages: how many pages the crawl may have; 0: no limit.
    :param offers: what this worker offers to requests that need it.
    :param group_failed: what becomes of requests that wait for a group of which requests were set aside:
        ``run``, or ``drop``.
    :param pools: the pools in this worker's settings.
    :param history: how many crawls the history keeps; 0: none, :param history_age: for how many seconds, and
    :param history_alert: the share by which a figure must differ from that of the crawl before for an event;
        0: no event.
    :param outcomes: of how many requests Redis keeps the outcome; 0: of none.
    """

    lease_timeout: float = 30.0
    max_deliveries: int = 5
    max_waiting: int = 0
    policy: str = "slow"
    max_failed: int = 10_000
    wait_replicas: int = 0
    max_workers: int = 0
    max_workers_policy: str = "wait"
    close: CloseLimits = NEVER
    stall_timeout: float = 600.0
    max_events: int = 10_000
    slot_policy: SlotPolicy = field(default_factory=SlotPolicy)
    order: str = "slots"
    max_seed_bytes: int = 1024 * 1024
    items: str = ""
    feed: str = ""
    max_items: int = 0
    backoff_min_delay: float = 1.0
    backoff_max_delay: float = 300.0
    slot_give_up: float = 0.0
    max_pages: int = 0
    offers: frozenset[str] = frozenset()
    group_failed: str = "run"
    pools: tuple[Pool, ...] = ()
    history: int = 100
    history_age: float = 90 * 86400.0
    history_alert: float = 0.3
    outcomes: int = 50_000

    @property
    def wire_offers(self) -> str:
        """What the worker offers, as the name of a lane: the pools are the last."""
        pools = (lane_of("", pool.name) for pool in self.pools if not pool.is_for_worker)
        return "|".join(filter(None, (joined(self.offers), *sorted(pools))))

    @property
    def wire_history(self) -> str:
        """The limits of the history, as ``lua/fleet/record.lua`` reads them."""
        return f"{self.history} {max(1, round(self.history_age))} {self.history_alert:.6f}"

    @property
    def wire_limits(self) -> str:
        """The limits of a slot by default, in words: equal for workers with equal limits."""
        return str(self.slot_policy.default)

    @property
    def lease_ms(self) -> int:
        """The lease timeout in whole milliseconds, as the scripts take it."""
        return max(1, int(self.lease_timeout * 1000))
