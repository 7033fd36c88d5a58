"""Set aside requests that failed in the crawl, because a callback raised or a download failed for good.

Scrapy only logs these failures. With ``FRONTIER_SET_ASIDE`` the requests are put into the failed list too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.http import Response
from scrapy.utils.misc import load_object
from twisted.python.failure import Failure
from typing_extensions import Self

from .engine.bridge import find_scheduler
from .errors import SettingError, described, named
from .settings import FrontierSettings

Tell = Callable[[Request, str, str], Any]


def watch_callbacks(crawler: Crawler, tell: Tell) -> None:
    """Call *tell* with the request, the reason and the traceback, each time a callback or errback raises."""

    def raised(failure: Failure, response: Any) -> None:
        # After a failed download *response* is a Failure. Scrapy gives it a request, too.
        request = getattr(response, "request", None)
        if isinstance(request, Request):
            tell(request, f"its callback raised {named(failure.value)}", failure.getTraceback())

    # Not weak: the signal has the only reference to the function.
    crawler.signals.connect(raised, signals.spider_error, weak=False)


def check_middleware(settings: Any) -> None:
    """Check that :class:`FailedDownloads` is enabled.

    :raises SettingError: if it is not enabled.
    """
    for entry, order in settings.getwithbase("DOWNLOADER_MIDDLEWARES").items():
        if order is not None and load_object(entry) is FailedDownloads:
            return
    raise SettingError(
        "FRONTIER_SET_ASIDE contains 'download', which needs a downloader middleware. Use the add-on, or add "
        "{'scrapy_rq_sched.failures.FailedDownloads': 10} to DOWNLOADER_MIDDLEWARES"
    )


class FailedDownloads:
    """A downloader middleware that sets aside a request when its download failed for good.

    It must be the first middleware, so that a failure reaches it after all others have passed it on. It sets
    aside requests with an exception that is not retried any more, and with a response that has a status in
    ``RETRY_HTTP_CODES``, unless the spider handles this status.

    :raises NotConfigured: unless ``FRONTIER_SET_ASIDE`` contains ``download``.
    """

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        try:
            chosen = FrontierSettings.from_settings(settings).set_aside
        except SettingError:
            raise NotConfigured from None  # the scheduler logs the error, and ends the crawl
        if "download" not in chosen:
            raise NotConfigured
        self._crawler = crawler
        self._bad = {int(code) for code in settings.getlist("RETRY_HTTP_CODES")}
        self._wants_all = settings.getbool("HTTPERROR_ALLOW_ALL")
        self._wanted = {int(code) for code in settings.getlist("HTTPERROR_ALLOWED_CODES")}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return the middleware of *crawler*."""
        return cls(crawler)

    def process_response(self, request: Request, response: Response, spider: Any = None) -> Response:
        """Set *request* aside if *response* has a status that was retried without success."""
        if response.status in self._bad and not self._is_wanted(request, response.status):
            self._tell(request, f"its download failed: status {response.status}", "")
        return response

    def process_exception(self, request: Request, exception: Exception, spider: Any = None) -> None:
        """Set *request* aside, unless *exception* is ``IgnoreRequest``."""
        if not isinstance(exception, IgnoreRequest):
            error, trace = described(exception)
            self._tell(request, f"its download failed: {error}", trace)

    def _is_wanted(self, request: Request, status: int) -> bool:
        meta = request.meta
        if self._wants_all or meta.get("handle_httpstatus_all") or meta.get("dont_retry"):
            return True
        of_spider = getattr(self._crawler.spider, "handle_httpstatus_list", ())
        return status in self._wanted or status in meta.get("handle_httpstatus_list", of_spider)

    def _tell(self, request: Request, reason: str, trace: str) -> None:
        tell = getattr(find_scheduler(self._crawler), "request_failed", None)
        if tell is not None:  # another scheduler does not have it
            tell(request, reason, trace)
