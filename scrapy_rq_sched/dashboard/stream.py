"""Server-sent events: each new picture at once. Where they do not come through, the page polls instead."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from .api import overview_text, picture_text
from .pictures import PICTURE, Pictures

#: Seconds of silence after which a stream sends a ping: proxies close silent connections.
SILENCE = 15.0
#: Concurrent streams, at most.
MOST = 200
#: Tells a proxy not to buffer the stream.
_HEADERS = {"X-Accel-Buffering": "no"}


class Stream:
    """Sends pictures to browsers.

    :param is_closing: returns whether the server is closing; streams then end.
    """

    def __init__(self, pictures: Pictures, is_closing: Callable[[], bool]) -> None:
        self._pictures = pictures
        self._is_closing = is_closing
        self._open = 0

    async def stream(self, request: Request) -> Response:
        """Return a stream of the responses of ``/status``."""
        if self._open >= MOST:
            raise HTTPException(503, f"{MOST} streams are open, the maximum. Poll /api/v1/status instead")
        if request.method == "HEAD":  # it has no body that could end
            return Response(media_type="text/event-stream", headers=_HEADERS)
        spider = request.query_params.get("spider")
        if spider is not None:
            self._pictures.of(spider)  # a name that is too long is refused before the stream begins
        return StreamingResponse(self._pictures_of(spider), media_type="text/event-stream", headers=_HEADERS)

    async def _pictures_of(self, spider: str | None) -> AsyncIterator[str]:
        self._open += 1
        try:
            last, said = "", time.monotonic()
            while not self._is_closing():
                text = await self._text(spider)
                if text != last:
                    yield f"data: {text}\n\n"
                    last, said = text, time.monotonic()
                elif time.monotonic() - said > SILENCE:
                    yield "event: ping\ndata:\n\n"
                    said = time.monotonic()
                await self._pause()
        finally:
            self._open -= 1

    async def _pause(self) -> None:
        until = time.monotonic() + PICTURE
        while time.monotonic() < until and not self._is_closing():
            await asyncio.sleep(0.2)

    async def _text(self, spider: str | None) -> str:
        if spider is None:
            return await overview_text(self._pictures)
        return picture_text(await self._pictures.of(spider).picture.get())
