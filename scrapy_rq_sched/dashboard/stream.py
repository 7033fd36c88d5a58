"""Server-sent events: each new picture at once. Where they do not come through, the page polls instead."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import partial

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from .api import overview_text, picture_text
from .pictures import PICTURE, Pictures
from .sessions import Sessions

#: Seconds of silence after which a stream sends a ping: proxies close silent connections.
SILENCE = 15.0
#: Concurrent streams, at most; and seconds until the client of a refused one may try again.
MOST, AGAIN = 200, 10
#: Concurrent streams of one browser, at most: it has six connections to a server; and characters of its name.
MOST_OF_BROWSER, LONGEST_ID = 4, 64
#: Seconds after which a stream ends. The page opens another one: its session is checked, and counts as used.
LONGEST = 3600.0
#: Tells a proxy not to buffer the stream.
_HEADERS = {"X-Accel-Buffering": "no"}


class Stream:
    """Sends pictures to browsers.

    :param sessions: the sessions of browsers; a stream ends with its session.
    :param is_closing: returns whether the server is closing; streams then end.
    :param most: the number of concurrent streams, at most.
    """

    def __init__(
        self, pictures: Pictures, sessions: Sessions, is_closing: Callable[[], bool], most: int = MOST
    ) -> None:
        self._pictures = pictures
        self._sessions = sessions
        self._is_closing = is_closing
        self._most = most
        self._open: Counter[str] = Counter()

    async def stream(self, request: Request) -> Response:
        """Return a stream of the responses of ``/status``."""
        if request.method == "HEAD":  # it has no body that could end
            return Response(media_type="text/event-stream", headers=_HEADERS)
        spider = request.query_params.get("spider")
        if spider is not None:
            self._pictures.of(spider)  # a name that is too long is refused before the stream begins
        # The windows of a browser share a name that the page has made.
        browser = request.query_params.get("browser", "")[:LONGEST_ID]
        if browser and self._open[browser] >= MOST_OF_BROWSER:
            return Response(status_code=204)  # its page polls, and the browser logs no error
        if self._open.total() >= self._most:
            text = f"{self._most} streams are open, the maximum. Poll /api/v1/status instead"
            raise HTTPException(503, text, {"Retry-After": str(AGAIN)})
        ended = partial(self._has_ended, browser)
        stream = _Counted(self._pictures_of(spider, self._end_of(request)), ended)
        # Counted before its body begins: until then, other requests are answered.
        self._open[browser] += 1
        return stream

    def _has_ended(self, browser: str) -> None:
        self._open[browser] -= 1
        self._open += Counter()  # without those that have none

    def _end_of(self, request: Request) -> Callable[[], bool]:
        """Return a function that tells whether the stream for *request* must end."""
        until, lasts = time.monotonic() + LONGEST, self._sessions.watch(request)
        has_session = request.state.has_session
        return lambda: self._is_closing() or time.monotonic() > until or (has_session and not lasts())

    async def _pictures_of(self, spider: str | None, is_over: Callable[[], bool]) -> AsyncIterator[str]:
        last, sent_at = "", time.monotonic()
        while not is_over():
            text = await self._text(spider)
            if text != last:
                yield f"data: {text}\n\n"
                last, sent_at = text, time.monotonic()
            elif time.monotonic() - sent_at > SILENCE:
                yield "event: ping\ndata:\n\n"
                sent_at = time.monotonic()
            await self._pause(is_over)

    async def _pause(self, is_over: Callable[[], bool]) -> None:
        until = time.monotonic() + PICTURE
        while time.monotonic() < until and not is_over():
            await asyncio.sleep(0.2)

    async def _text(self, spider: str | None) -> str:
        if spider is None:
            return await overview_text(self._pictures)
        return picture_text(await self._pictures.of(spider).picture.get())


class _Counted(StreamingResponse):
    """A stream that tells when it has ended, however that happens."""

    def __init__(self, content: AsyncIterator[str], ended: Callable[[], None]) -> None:
        super().__init__(content, media_type="text/event-stream", headers=_HEADERS)
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()
