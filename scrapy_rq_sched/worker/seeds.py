"""Seeds of this worker: the wait for one, and the requests that are made of it."""

from __future__ import annotations

import logging
import math
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from scrapy import Request, Spider

from ..codec.seeds import requests_of_seed
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

#: Seconds that one wait for a seed lasts at most: in the only key, and in several keys together.
SEED_WAIT, SEED_WAIT_OF_SEVERAL = 4.0, 1.0
#: A new seed wakes all idle workers. One of them takes it at once, and the others look again after a random
#: time of up to so many seconds for each of them, at most the second number: else all would ask at once.
SPREAD, LONGEST_SPREAD = 0.001, 0.1
#: Seconds until the next attempt, if Redis has refused to wait.
SEED_WAIT_AGAIN = 60.0
#: How many requests of a seed to make before the first of them is queued.
MADE_TOGETHER = 200


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

    def begin(self, workers: int) -> None:
        """Begin to wait, unless a wait is going on, or Redis has recently refused it.

        :param workers: how many workers may wait for the same seed.
        """
        if self._is_waiting or time.monotonic() < self._not_before:
            return
        self._is_waiting = True
        self._thread.call(lambda: self._wait(workers), self._ended)

    def _wait(self, workers: int) -> bool:
        """Wait, in the thread; return whether there is a seed that no other worker has taken."""
        is_only = len(self._frontier.keys.start_urls) == 1
        if not self._frontier.wait_for_seed(SEED_WAIT if is_only else SEED_WAIT_OF_SEVERAL):
            return False
        if workers <= 1:
            return True
        time.sleep(random.uniform(0, min(SPREAD * workers, LONGEST_SPREAD)))  # noqa: S311 - no secret
        return self._frontier.has_seed()

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


class Expansion:
    """A seed from which requests are being made.

    :ivar lease: the seed's lease.
    :ivar count: how many requests were returned.
    """

    def __init__(self, lease: Lease, made: Iterator[Request]) -> None:
        self.lease = lease
        self.count = 0
        self._made: Iterator[Request] | None = made
        self._next: deque[Request] = deque()

    @property
    def is_over(self) -> bool:
        """Whether the seed has no more requests."""
        return self._made is None and not self._next

    def requests(self, end: float) -> Iterator[Request]:
        """Yield the next requests: those made until *end* (``time.monotonic()``), at most MADE_TOGETHER.

        The method makes all of them before it yields the first. So a seed that is set aside because of an
        error has usually led to no requests.

        :raises SeedError: or any other error that making the requests raises.
        """
        while self._made is not None and len(self._next) < MADE_TOGETHER and time.monotonic() < end:
            request = next(self._made, None)
            if request is None:
                self._made = None
            else:
                self._next.append(request)
        while self._next:
            self.count += 1
            yield self._next.popleft()


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
