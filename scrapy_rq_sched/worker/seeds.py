"""Seeds of this worker: the wait for one, and the requests that are made of it."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from scrapy import Request, Spider

from ..codec.seeds import Expansion, requests_of_seed
from ..engine.bridge import EngineBridge
from ..errors import SeedError, UnknownCodeError, described, one_line, traceback_of
from ..frontier.client import Frontier
from ..frontier.replies import Lease
from ..runtime.background import BackgroundThread
from ..runtime.event_loop import EventLoop
from ..servers.failures import ResponseError
from ..settings import FrontierSettings
from .admission import Capacity
from .state import State

logger = logging.getLogger(__name__)

#: Seconds that one wait for a seed lasts at most.
SEED_WAIT = 1.0
#: Seconds until the next attempt, if Redis has refused to wait.
SEED_WAIT_AGAIN = 60.0


class SeedWait:
    """Wait for a seed, in a separate thread.

    :param over: called at the end of a wait, with whether there is a seed.
    """

    def __init__(self, frontier: Frontier, loop: EventLoop, over: Callable[[bool], None]) -> None:
        self._frontier = frontier
        self._thread = BackgroundThread("frontier-seeds", loop)
        self._over = over
        self._is_waiting = False
        self._not_before = 0.0

    def begin(self) -> None:
        """Begin to wait, unless a wait is going on, or Redis has recently refused it."""
        if self._is_waiting or time.monotonic() < self._not_before:
            return
        self._is_waiting = True
        self._thread.call(lambda: self._frontier.wait_for_seed(SEED_WAIT), self._ended)

    def close(self) -> None:
        """End the thread."""
        self._thread.stop()

    def _ended(self, came: bool, error: Exception | None) -> None:
        self._is_waiting = False
        if isinstance(error, ResponseError):
            reason = one_line(error)
            logger.info(
                "This worker polls for seeds, because Redis refuses the command that waits for them: %s",
                reason,
            )
            self._not_before = time.monotonic() + SEED_WAIT_AGAIN
        # Any other error is an outage, which the exchanges log.
        if error is None:
            self._over(came)


#: Seconds for which requests are made from seeds before the event loop has its turn.
SLICE = 0.02


class SeedExpander:
    """Make requests from the seeds that were leased to this worker.

    :param crawl: called with each request.
    :param refuse: called with a lease that needs code which this worker does not have, and the error.
    :param engine: the engine that drives the crawl, or None if the scheduler is driven by hand.
    """

    def __init__(
        self,
        state: State,
        capacity: Capacity,
        settings: FrontierSettings,
        spider: Spider,
        stats: Any,
        crawl: Callable[[Request], Any],
        refuse: Callable[[Lease, UnknownCodeError], None],
        engine: EngineBridge | None,
    ) -> None:
        self._state = state
        self._capacity = capacity
        self._settings = settings
        self._spider = spider
        self._stats = stats
        self._crawl = crawl
        self._refuse = refuse
        self._engine = engine
        self._expanding: deque[Expansion] = deque()
        self._goes_on_soon = False

    def expand(self, lease: Lease) -> None:
        """Begin to turn a seed into requests for the frontier."""
        self._state.expand(lease)
        settings = self._settings
        made = requests_of_seed(lease.payload, self._spider, settings.encoding, settings.seed_form_data)
        self._expanding.append(Expansion(lease, made))

    def go_on(self) -> None:
        """Make more requests, for one slice of time."""
        end = math.inf if self._engine is None else time.monotonic() + SLICE
        while self._expanding and not self._capacity.is_full:
            expanding = self._expanding[0]
            if expanding.lease not in self._state.expanding:  # another worker has the lease now
                self._expanding.popleft()
                continue
            if not self._state.start_reports.may_expand(expanding.lease):
                break
            if self._expand_some(expanding, end):
                self._expanding.popleft()
                self._state.expanding.remove(expanding.lease)
            elif self._engine is not None:
                break
        self._go_on_soon()

    def _go_on_soon(self) -> None:
        if not self._expanding or self._engine is None or self._goes_on_soon:
            return
        if not self._capacity.is_full and self._state.start_reports.may_expand(self._expanding[0].lease):
            self._goes_on_soon = True
            self._engine.soon(self._go_on_now)

    def _go_on_now(self) -> None:
        self._goes_on_soon = False
        self.go_on()

    def _expand_some(self, expanding: Expansion, end: float) -> bool:
        """Make requests from a seed until *end*; return whether the seed has no more."""
        lease = expanding.lease
        try:
            for request in expanding.requests(end):
                self._crawl(request)
                if self._capacity.is_full:
                    break
            if not expanding.is_over:
                return False
            if not expanding.count:
                logger.debug("make_request_from_data returned no request for seed %.200r", lease.payload)
            self._stats.inc_value("frontier/seeds")
        except UnknownCodeError as error:
            self._refuse(lease, error)
            return True
        except SeedError as error:
            logger.error("Seed %.200r is moved to the failed list: %s", lease.payload, one_line(error))
            trace = traceback_of(error.__cause__) if error.__cause__ else ""
            self._state.fail(lease, str(error), trace)
            return True
        except Exception as error:  # the user's code, such as a fingerprinter, may raise any exception
            logger.exception("Seed %.200r is moved to the failed list", lease.payload)
            self._state.fail(lease, *described(error))
            return True
        self._state.finish(lease)
        return True
