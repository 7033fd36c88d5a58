"""The modes of a scheduler: in a crawl of the fleet, driven by hand, or outside the frontier.

The scheduler chooses a mode when it is opened, and forwards Scrapy's calls to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from scrapy import Request
from scrapy.core.scheduler import Scheduler as MemoryScheduler
from twisted.internet.defer import Deferred

from ..errors import FrontierError, InterruptedInLineError
from ..frontier.client import Opened, Waiting
from ..runtime.event_loop import EventLoop
from ..runtime.patience import JoinRetry
from . import membership
from .loop import ExchangeLoop, InlineExchange
from .membership import Line
from .session import Session

#: Seconds that leaving the line for a place may take.
LEAVE_TIMEOUT = 2.0


class Mode(Protocol):
    """The methods of a scheduler that Scrapy calls."""

    #: The session with the frontier, once this worker has joined it.
    session: Session | None

    def enqueue(self, request: Request) -> bool:
        """Take *request*; return False if this worker knows that it is a duplicate."""

    def next(self) -> Request | None:
        """Return the next request, or None if no request is ready."""

    def has_pending(self) -> bool:
        """Return whether the spider must stay open."""

    def __len__(self) -> int:
        """Return how many requests wait."""

    def close(self, reason: str) -> Any:
        """Close this mode; return a Deferred that fires when this is done, or None."""


def _not_open(*_: Any) -> Any:
    raise RuntimeError("The scheduler is not open: call open(spider) first")


class NotOpen:
    """A scheduler that is not open: its methods raise ``RuntimeError``."""

    session: Session | None = None
    enqueue = next = has_pending = __len__ = _not_open

    def close(self, reason: str) -> None:  # noqa: D102 - see Mode, here and below
        pass


class Refused:
    """A crawl that cannot start, and is about to end.

    :param error: the reason.
    """

    session: Session | None = None

    def __init__(self, error: FrontierError) -> None:
        self.error = error

    def enqueue(self, request: Request) -> bool:  # noqa: D102
        return False

    def next(self) -> Request | None:  # noqa: D102
        return None

    def has_pending(self) -> bool:  # noqa: D102
        return True  # otherwise Scrapy would close the spider as finished

    def __len__(self) -> int:
        return 0

    def close(self, reason: str) -> None:  # noqa: D102
        pass


class Bypass:
    """A shell, or a command such as ``scrapy fetch``: its requests do not reach the frontier.

    :param scheduler: Scrapy's own scheduler.
    """

    session: Session | None = None

    def __init__(self, scheduler: MemoryScheduler) -> None:
        self._scheduler = scheduler
        self.enqueue = scheduler.enqueue_request
        self.next = scheduler.next_request
        self.has_pending = scheduler.has_pending_requests
        self.close = scheduler.close

    def __len__(self) -> int:
        return len(self._scheduler)


class ByHand:
    """A scheduler that is driven by hand, without an event loop: each call waits for Redis.

    A request counts as finished at the call for the next one.
    """

    def __init__(self, session: Session) -> None:
        self.session: Session | None = None
        self._session = session
        self._inline = InlineExchange(session)
        self._closed = False

    def open(self) -> None:
        """Join the frontier; if all places are taken, wait for one.

        :raises FrontierError: if this worker cannot join.
        """
        line = _line_of(self._session)
        while isinstance(found := membership.join(self._session, line), Waiting):
            time.sleep(line.wait(found))
        membership.welcome(self._session, line, found)
        self.session = self._session

    def enqueue(self, request: Request) -> bool:  # noqa: D102
        if not self._session.send(request):
            return False
        self._inline.exchange()
        return request not in self._session.dropped

    def next(self) -> Request | None:  # noqa: D102
        session = self._session
        session.state.finish_all_but(())
        self._inline.exchange(want=1)
        request = session.take()
        while request is None and session.state.has_undone:
            # The lease could not be turned into a request, and is set aside, or an operator has denied its
            # URL: get the next one. Or the request is a suspect, which must be reported before it is begun.
            self._inline.exchange(want=1)
            request = session.take()
        return request

    def has_pending(self) -> bool:  # noqa: D102
        if self._closed:
            return False  # this worker has left: an exchange would join again
        reply = self._inline.exchange()
        state = self._session.state
        others = (reply.leased or 0) - state.requests.leased
        here = len(state.ready) + len(state.memory)
        return bool(here + reply.waiting + reply.parked + reply.seeds + others)

    def __len__(self) -> int:
        if self._closed:
            return 0
        return _at_hand(self._session) + self._inline.exchange().waiting

    def close(self, reason: str) -> None:  # noqa: D102
        self._closed = True
        session = self._session
        if self.session is None:
            return
        leave = membership.begin_to_leave(session, reason)
        session.state.finish_all_but(())
        self._inline.exchange()
        membership.left(session, leave(), None)


class Crawling:
    """A worker of the fleet: no call waits for Redis, and the loop exchanges in the background.

    :param refuse: called with the error if this worker could not join, before the scheduler counts as open.
    :param welcome: called when this worker has joined.
    """

    def __init__(
        self,
        session: Session,
        refuse: Callable[[FrontierError], None],
        welcome: Callable[[], None] | None = None,
    ) -> None:
        self._welcome = welcome
        self.session: Session | None = None
        self._session = session
        self._refuse = refuse
        self._exchanges = ExchangeLoop(session, EventLoop())
        self._closed = self._may_be_in_line = False

    def open(self) -> Deferred[None]:
        """Join the frontier; return a Deferred that fires when this is done, even without a reactor."""
        opened: Deferred[None] = Deferred()
        join_timeout, line, loop = self._session.settings.join_timeout, _line_of(self._session), EventLoop()
        patience = JoinRetry(join_timeout)

        def joined(found: Any, error: Exception | None) -> None:
            nonlocal patience
            self._may_be_in_line = bool(line.came) or error is None
            try:
                if error is not None and not self._closed and patience.again(error, join):
                    return
                if isinstance(found, Waiting) and not self._closed:
                    if self._session.engine is not None and not self._session.crawler.crawling:
                        self._leave_line()  # without a reactor, there is no event before the shutdown
                        raise InterruptedInLineError("it was told to end while it waited for a place")
                    patience = JoinRetry(join_timeout)
                    loop.call_later(line.wait(found), join)
                    return
                self._joined(found, error, line)
            except Exception as problem:  # passed on by the Deferred
                self._closed = True
                self._exchanges.close()
                if not isinstance(problem, FrontierError) or self._session.engine is None:
                    opened.errback(problem)
                    return
                self._refuse(problem)
            opened.callback(None)

        def join() -> None:
            if self._closed:
                return  # this worker has left the line, and must not enter it again
            # It may be in line before it learns of that.
            self._may_be_in_line = True
            self._exchanges.call(lambda: membership.join(self._session, line), joined)

        loop.before_shutdown(self._leave_line)
        join()
        return opened

    def _leave_line(self) -> Deferred[None] | None:
        """Leave the line at once, so that it moves. Scrapy does not close a spider that is being opened."""
        if self.session is not None or self._closed or not self._may_be_in_line:
            return None
        self._closed = True
        gone: Deferred[None] = Deferred()
        leave = partial(self._session.frontier.leave, False, self._session.settings.persist)
        cancel = EventLoop().call_later(LEAVE_TIMEOUT, lambda: gone.callback(None))

        def left(*_: Any) -> None:
            if not gone.called:
                cancel()
                gone.callback(None)

        self._exchanges.call(leave, left)
        return gone

    def _joined(self, found: Any, error: Exception | None, line: Line) -> None:
        if error is not None:
            raise error
        session = self._session
        if self._closed:
            leave = partial(session.frontier.leave, False, session.settings.persist)
            self._exchanges.call(leave, lambda *_: self._exchanges.close())
            return
        assert isinstance(found, Opened)  # noqa: S101 - there is an error or a result
        self.session = session
        if self._welcome is not None:
            self._welcome()
        membership.welcome(session, line, found)
        self._exchanges.start(at_once=found.waiting + found.seeds + found.leased > 0)

    def enqueue(self, request: Request) -> bool:  # noqa: D102
        if not self._session.send(request):
            return False
        if not self._session.state.ready:
            self._exchanges.kick()
        return True

    def next(self) -> Request | None:  # noqa: D102
        if self._session.engine is None:
            # By hand, the call for the next request finishes the last one.
            self._session.state.finish_all_but(())
            self._session.prepare()
        self._session.sync()
        request = self._session.take()
        self._exchanges.request_taken()
        return request

    def has_pending(self) -> bool:  # noqa: D102
        finished = self._session.finished
        # An extension may wait for a request that waits for its turn.
        is_quiet = self._session.state.is_quiet and not self._session.outside.count
        if not (finished.is_running and is_quiet):
            return True
        return finished.seconds < self._session.settings.idle_before_close

    def __len__(self) -> int:
        reply = self._session.last_reply
        return _at_hand(self._session) + (reply.waiting if reply else 0)

    def close(self, reason: str) -> Deferred[None] | None:  # noqa: D102
        self._closed = True
        session = self._session
        if self.session is None:
            return None
        leave = membership.begin_to_leave(session, reason)
        return self._exchanges.leave(leave, partial(membership.left, session))


def _line_of(session: Session) -> Line:
    return Line(session.settings, session.spider.name, session.crawler.stats)


def _at_hand(session: Session) -> int:
    return len(session.state.outbox) + len(session.state.ready) + len(session.state.memory)
