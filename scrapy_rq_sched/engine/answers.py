"""What sites answer: every response of the downloader, also those that a middleware replaces or retries.

And which sites do not answer: every failure to connect, before a middleware retries it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from scrapy import Request, exceptions, signals
from scrapy.http import Response
from twisted.internet import defer
from twisted.internet.error import ConnectError, DNSLookupError
from twisted.internet.error import TimeoutError as TwistedTimeoutError
from twisted.web.client import ResponseNeverReceived

from ..codec.pools import GIVEN
from ..codec.slots import slot_name
from ..errors import one_line

#: Failures that concern the site, whatever was asked: there is no connection.
_NO_CONNECTION = ("CannotResolveHostError", "DownloadConnectionRefusedError")
#: Failures that may concern one page only: it takes too long, or the connection breaks.
_NO_ANSWER = ("DownloadTimeoutError", "DownloadFailedError")


def _scrapys(names: tuple[str, ...]) -> tuple[type[Exception], ...]:
    # Scrapy has its own exceptions since 2.15; before that, they are Twisted's.
    return tuple(getattr(exceptions, name) for name in names if hasattr(exceptions, name))


NO_CONNECTION = (*_scrapys(_NO_CONNECTION), ConnectError, DNSLookupError)
TIMEOUTS = (*_scrapys(("DownloadTimeoutError",)), defer.TimeoutError, TwistedTimeoutError)
NO_ANSWER = (*_scrapys(_NO_ANSWER), *TIMEOUTS, ResponseNeverReceived)
#: How many characters of a failure are shown.
SHOWN = 120


class Answer(NamedTuple):
    """A response of a site.

    :param slot: the slot in which it was downloaded, by its name in the frontier.
    :param sent: when its request was sent, by the monotonic clock.
    :param is_by_proxy: whether it came through a proxy, which may have answered itself.
    :param latency: its latency in seconds, for AutoThrottle; None if it does not count.
    :param pools: the pools of which its request has items.
    """

    slot: str
    status: int
    url: str
    sent: float
    is_by_proxy: bool
    headers: Any
    latency: float | None = None
    pools: tuple[str, ...] = ()

    @property
    def has_rate_limit(self) -> bool:
        """Whether any header is about a rate limit. Nearly no response has one, so this is quick."""
        return any(b"atelimit" in name for name in self.headers)

    def header(self, name: str) -> str | None:
        """Return the value of a header; None if the response does not have it."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")


class Failure(NamedTuple):
    """A request whose site could not be reached.

    :param slot: the slot in which it was downloaded, by its name in the frontier.
    :param sent: when the downloader was given it, by the monotonic clock.
    :param is_of_site: whether there was no connection; else the same page may fail again.
    :param reason: why, in one line.
    """

    slot: str
    url: str
    sent: float
    is_of_site: bool
    reason: str


class Answers:
    """Tell *hear* each answer that the downloader of *engine* gets, also to a robots.txt or a media file.

    :param reached: returns when the downloader was given a request, by the monotonic clock.
    :param miss: called for each request whose site could not be reached, unless it has a proxy; None: nothing
        is called.
    """

    def __init__(
        self,
        engine: Any,
        reached: Callable[[Request], float],
        hear: Callable[[Answer], None],
        miss: Callable[[Failure], None] | None = None,
    ) -> None:
        self._reached, self._hear = reached, hear
        engine.signals.connect(self._downloaded, signals.response_downloaded)
        if miss is not None:
            self._miss = miss
            # The first middleware that is asked sees the failure as it is, and no signal tells of it.
            engine.downloader.middleware.methods["process_exception"].appendleft(self._failed)

    def _failed(self, request: Request, exception: Exception, spider: Any = None) -> None:
        # Before Scrapy 2.15, a page that takes too long raises an exception that is also a ConnectError.
        is_of_site = isinstance(exception, NO_CONNECTION) and not isinstance(exception, TIMEOUTS)
        slot = request.meta.get("download_slot")
        if not slot or request.meta.get("proxy") or not (is_of_site or isinstance(exception, NO_ANSWER)):
            return
        text = one_line(f"{type(exception).__name__}: {exception}")[:SHOWN]
        self._miss(Failure(slot_name(str(slot)), request.url, self._reached(request), is_of_site, text))

    def _downloaded(self, response: Response, request: Request) -> None:
        meta = request.meta
        if not meta.get("download_slot"):  # a downloader of the user's own, without slots
            return
        slot = slot_name(str(meta["download_slot"]))
        latency = meta.get("download_latency")
        sent = time.monotonic() - (latency or 0.0)
        if meta.get("autothrottle_dont_adjust_delay") is True:
            latency = None
        is_by_proxy = bool(meta.get("proxy"))
        given = meta.get(GIVEN)
        pools = tuple(given.get("pools", ())) if isinstance(given, dict) else ()
        self._hear(
            Answer(slot, response.status, request.url, sent, is_by_proxy, response.headers, latency, pools)
        )
