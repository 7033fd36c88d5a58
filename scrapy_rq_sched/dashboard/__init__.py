"""The web page to watch and steer crawls, and its JSON API, for ``scrapy frontier dashboard``."""

from __future__ import annotations

try:
    from .app import create_app
except ModuleNotFoundError as error:
    if error.name not in ("anyio", "starlette"):
        raise
    raise ImportError(
        "The dashboard needs starlette and uvicorn. Install them: pip install 'scrapy-rq-sched[dashboard]'"
    ) from error

__all__ = ["create_app"]
