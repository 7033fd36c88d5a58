"""The files of the page. They are part of the package, and contain no data from Redis."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from pathlib import PurePath
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

#: The files to serve: those with these suffixes.
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


class _File(NamedTuple):
    data: bytes
    media_type: str
    tag: str


class Files:
    """Serves the files from memory."""

    def __init__(self) -> None:
        folder = files("scrapy_rq_sched.dashboard") / "static"
        self._files = {}
        for file in folder.iterdir():
            media_type = _TYPES.get(PurePath(file.name).suffix)
            if media_type is not None:
                data = file.read_bytes()
                self._files[file.name] = _File(data, media_type, f'"{hashlib.sha256(data).hexdigest()[:32]}"')

    def data(self, name: str) -> bytes:
        """Return the content of the file called *name*."""
        return self._files[name].data

    async def page(self, request: Request) -> Response:
        """Return the page."""
        return self._serve(request, "index.html")

    async def file(self, request: Request) -> Response:
        """Return a file of the page."""
        return self._serve(request, request.path_params["name"])

    def _serve(self, request: Request, name: str) -> Response:
        file = self._files.get(name)
        if file is None:
            raise HTTPException(404, "There is no such file")
        headers = {"ETag": file.tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == file.tag:
            return Response(status_code=304, headers=headers)
        return Response(file.data, headers=headers, media_type=file.media_type)
