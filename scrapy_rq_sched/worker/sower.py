"""From seeds to requests, in short slices: a seed may become any number of requests."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from scrapy import Request, Spider

from ..codec.seeds import Sowing, requests_of_seed
from ..engine.bridge import EngineBridge
from ..errors import SeedError, UnknownCodeError, described, one_line, traceback_of
from ..frontier.replies import Lease
from ..settings import FrontierSettings
from .limits import Limits
from .state import State

logger = logging.getLogger(__name__)

#: Seconds for which requests are made from seeds before the event loop has its turn.
SLICE = 0.02


class Sower:
    """Make requests from the seeds that were leased to this worker.

    :param crawl: called with each request.
    :param refuse: called with a lease that needs code which this worker does not have, and the error.
    :param engine: the engine that drives the crawl, or None if the scheduler is driven by hand.
    """

    def __init__(
        self,
        state: State,
        limits: Limits,
        settings: FrontierSettings,
        spider: Spider,
        stats: Any,
        crawl: Callable[[Request], Any],
        refuse: Callable[[Lease, UnknownCodeError], None],
        engine: EngineBridge | None,
    ) -> None:
        self._state = state
        self._limits = limits
        self._settings = settings
        self._spider = spider
        self._stats = stats
        self._crawl = crawl
        self._refuse = refuse
        self._engine = engine
        self._sowing: deque[Sowing] = deque()
        self._goes_on_soon = False

    def sow(self, lease: Lease) -> None:
        """Begin to turn a seed into requests for the frontier."""
        self._state.sow(lease)
        settings = self._settings
        made = requests_of_seed(lease.payload, self._spider, settings.encoding, settings.seed_form_data)
        self._sowing.append(Sowing(lease, made))

    def go_on(self) -> None:
        """Make more requests, for one slice of time."""
        end = math.inf if self._engine is None else time.monotonic() + SLICE
        while self._sowing and not self._limits.is_full:
            sowing = self._sowing[0]
            if sowing.lease not in self._state.sowing:  # another worker has the lease now
                self._sowing.popleft()
                continue
            if not self._state.beginnings.may_sow(sowing.lease):
                break
            if self._sow_some(sowing, end):
                self._sowing.popleft()
                self._state.sowing.remove(sowing.lease)
            elif self._engine is not None:
                break
        self._go_on_soon()

    def _go_on_soon(self) -> None:
        if not self._sowing or self._engine is None or self._goes_on_soon:
            return
        if not self._limits.is_full and self._state.beginnings.may_sow(self._sowing[0].lease):
            self._goes_on_soon = True
            self._engine.soon(self._go_on_now)

    def _go_on_now(self) -> None:
        self._goes_on_soon = False
        self.go_on()

    def _sow_some(self, sowing: Sowing, end: float) -> bool:
        """Make requests from a seed until *end*; return whether the seed has no more."""
        lease = sowing.lease
        try:
            for request in sowing.requests(end):
                self._crawl(request)
                if self._limits.is_full:
                    break
            if not sowing.is_over:
                return False
            if not sowing.count:
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
