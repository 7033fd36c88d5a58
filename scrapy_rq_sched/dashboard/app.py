"""The dashboard as an ASGI application, which may be mounted under any path of another."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ..connection import RedisError
from ..errors import FrontierError
from .actions import ACTIONS
from .api import Api
from .files import Files
from .frontiers import Frontiers
from .guard import LOOPBACK, Guard
from .login import Authenticate, Login
from .metrics import PATH as METRICS_PATH
from .metrics import MetricsPage
from .pictures import Pictures
from .steer import Steer
from .stream import Stream

#: Threads that ask Redis: one that waits for it holds up no other.
THREADS = 8


def password_of(settings: Any) -> str:
    """Return the dashboard's password, from the settings or else the environment; empty if there is none."""
    name = "FRONTIER_DASHBOARD_PASSWORD"
    return str(settings.get("FRONTIER_DASHBOARD_PASSWORD") or os.environ.get(name, ""))


def below(app: ASGIApp, path: str) -> ASGIApp:
    """Return *app* as what a proxy serves below *path*, whether the proxy takes that off or leaves it."""
    root = "/" + path.strip("/") if path.strip("/") else ""
    if not root:
        return app

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            asked = scope["path"]
            whole = asked if asked == root or asked.startswith(f"{root}/") else root + asked
            scope = {**scope, "root_path": root, "path": whole}
        await app(scope, receive, send)

    return served


def create_app(
    settings: Any,
    *,
    spider: str | None = None,
    redis_key: str | None = None,
    actions: bool = False,
    authenticate: Authenticate | None = None,
    allowed_hosts: Collection[str] | None = None,
    open_metrics: bool = False,
    is_closing: Callable[[], bool] = lambda: False,
) -> ASGIApp:
    """Return the dashboard as an ASGI application. It runs on asyncio.

    :param settings: Scrapy's, as ``scrapy.utils.project.get_project_settings()`` returns them. Unless
        *authenticate* is given, their ``FRONTIER_DASHBOARD_PASSWORD`` has to be known; without one, anybody
        who can send a request may look.
    :param spider: the only spider that is shown; by default, all are.
    :param redis_key: the key of the seeds, if they are given another than the spider's class has.
    :param actions: whether it may change anything.
    :param authenticate: is given each request (a ``starlette.requests.HTTPConnection``), and returns who
        sends it, for the audit list; or None, False or an empty name if they may not look. It may be a
        coroutine function.
    :param allowed_hosts: the names, without a port, by which it may be called in the header ``Host``;
        by default, those of this machine; ``["*"]`` if the application that it is mounted into checks them.
    :param open_metrics: whether ``/metrics``, which needs the extra ``metrics``, asks for no login.
    :param is_closing: whether the server is about to close: then the streams of pictures end.
    :raises SettingError: if a setting has a value that it may not have.
    """
    executor = ThreadPoolExecutor(THREADS, "frontier-dashboard")
    frontiers = Frontiers(settings, spider, redis_key)
    pictures = Pictures(frontiers, executor)
    api, steer, files = Api(pictures, actions, executor), Steer(pictures, executor), Files()

    def redis_failed(request: Request, error: Exception) -> Response:
        assert isinstance(error, RedisError)  # noqa: S101 - it is called for no other
        return JSONResponse({"error": frontiers.describe(error)}, 503)

    looking = {
        "about": api.about,
        "status": api.status,
        "workers": api.workers,
        "slots": api.slots,
        "peek": api.peek,
        "failed": api.failed,
        "failed/counts": api.counts,
        "explain": api.explain,
        "events": api.events,
        "audit": api.audit,
        "stream": Stream(pictures, is_closing).stream,
    }
    routes = [
        Route("/", files.page),
        Route("/static/{name}", files.file),
        Route(METRICS_PATH, MetricsPage(settings, spider, executor).metrics),
        *(Route(f"/api/v1/{path}", endpoint) for path, endpoint in looking.items()),
        *(
            Route(f"/api/v1/{path}", steer.route(path, action), methods=["POST"])
            for path, action in ACTIONS.items()
        ),
    ]
    handlers: dict[Any, Any] = {
        HTTPException: _refused,
        FrontierError: _not_done,
        RedisError: redis_failed,
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    login = Login(password_of(settings), authenticate)
    hosts = LOOPBACK if allowed_hosts is None else allowed_hosts
    return Guard(app, login, actions, hosts, open_paths=[METRICS_PATH] if open_metrics else [])


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - it is called for no other
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def _not_done(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400)
