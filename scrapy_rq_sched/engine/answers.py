"""What sites answer: every response of the downloader, also those that a middleware replaces or retries."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from scrapy import Request, signals
from scrapy.http import Response

from ..codec.slots import slot_name


class Answer(NamedTuple):
    """A response of a site.

    :param slot: the slot in which it was downloaded, by its name in the frontier.
    :param sent: when its request was sent, by the monotonic clock.
    :param is_by_proxy: whether it came through a proxy, which may have answered itself.
    """

    slot: str
    status: int
    url: str
    sent: float
    is_by_proxy: bool
    headers: Any

    @property
    def has_rate_limit(self) -> bool:
        """Whether any header is about a rate limit. Nearly no response has one, so this is quick."""
        return any(b"atelimit" in name for name in self.headers)

    def header(self, name: str) -> str | None:
        """Return the value of a header; None if the response does not have it."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")


class Answers:
    """Tell *hear* each answer that the downloader of *engine* gets, also to a robots.txt or a media file."""

    def __init__(self, engine: Any, hear: Callable[[Answer], None]) -> None:
        self._hear = hear
        engine.signals.connect(self._downloaded, signals.response_downloaded)

    def _downloaded(self, response: Response, request: Request) -> None:
        meta = request.meta
        if not meta.get("download_slot"):  # a downloader of the user's own, without slots
            return
        slot = slot_name(str(meta["download_slot"]))
        sent = time.monotonic() - meta.get("download_latency", 0.0)
        self._hear(
            Answer(slot, response.status, request.url, sent, bool(meta.get("proxy")), response.headers)
        )
