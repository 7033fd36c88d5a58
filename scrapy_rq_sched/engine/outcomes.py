"""The outcomes of requests in the engine: responses, exceptions of downloads, errors of callbacks, items."""

from __future__ import annotations

from typing import Any, Protocol

from scrapy import Request, signals
from scrapy.http import Response


class Hearer(Protocol):
    """Is told the outcomes of requests."""

    def downloaded(self, request: Request, status: int, slot: str, latency: float) -> None:
        """Note a response: the downloader's name of its slot, and its latency in seconds."""

    def raised(self, request: Request, exception: Exception) -> None:
        """Note an exception of the download, or of a downloader middleware before it."""

    def callback_raised(self, request: Request | None) -> None:
        """Note an exception of a callback."""

    def scraped(self, request: Request | None) -> None:
        """Note an item of the page of *request*; None: it belongs to no page."""


class Outcomes:
    """Tells *hearer* the outcomes of the requests of *engine*."""

    def __init__(self, engine: Any, hearer: Hearer) -> None:
        self._hearer = hearer
        connect = engine.signals.connect
        connect(self._downloaded, signals.response_downloaded)
        connect(self._callback_raised, signals.spider_error)
        connect(self._scraped, signals.item_scraped)
        # The first middleware that is asked sees the exception as it is, and no signal tells of it.
        engine.downloader.middleware.methods["process_exception"].appendleft(self._raised)

    def _downloaded(self, response: Response, request: Request) -> None:
        meta = request.meta
        slot = str(meta.get("download_slot") or "")
        self._hearer.downloaded(request, response.status, slot, meta.get("download_latency") or 0.0)

    def _raised(self, request: Request, exception: Exception, spider: Any = None) -> None:
        self._hearer.raised(request, exception)

    def _callback_raised(self, response: Any) -> None:
        self._hearer.callback_raised(getattr(response, "request", None))

    def _scraped(self, response: Any) -> None:
        self._hearer.scraped(getattr(response, "request", None))
