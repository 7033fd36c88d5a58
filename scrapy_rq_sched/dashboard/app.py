"""The dashboard as an ASGI application. Another application can mount it under any path."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ..connection import RedisError
from ..errors import FrontierError, SettingError
from .actions import ACTIONS, endpoint
from .answers import refusal
from .api import Api
from .entrance import LOGIN_PATH, LOGOUT_PATH, Entrance
from .files import Files
from .frontiers import Frontiers
from .guard import LOOPBACK, Guard
from .guess_report import GuessReport
from .guesses import Guesses
from .login import Authenticate, Login, encoded
from .logs import Logs
from .metrics import PATH as METRICS_PATH
from .metrics import MetricsPage
from .pictures import MOST_FRONTIERS, Pictures
from .stream import MOST as MOST_STREAMS
from .stream import Stream

#: Threads that read Redis. A thread that waits for Redis does not delay the others.
THREADS = 8
#: Characters of a token, at least.
SHORTEST_TOKEN = 20


def password_of(settings: Any) -> str:
    """Return the dashboard's password from the settings, or else from the environment; empty if not set.

    :raises SettingError: if no browser can send it.
    """
    name = "FRONTIER_DASHBOARD_PASSWORD"
    password = str(settings.get("FRONTIER_DASHBOARD_PASSWORD") or os.environ.get(name, ""))
    try:
        encoded(password)
    except UnicodeEncodeError:
        # The password is not shown.
        raise SettingError(f"{name} must be valid Unicode; it has a lone surrogate") from None
    return password


def below(app: ASGIApp, path: str) -> ASGIApp:
    """Return *app* for a proxy that serves it below *path*, and that may or may not strip this path."""
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
    token: str = "",
    allowed_hosts: Collection[str] | None = None,
    open_metrics: bool = False,
    is_closing: Callable[[], bool] = lambda: False,
    max_streams: int = MOST_STREAMS,
    logs: str | None = None,
) -> ASGIApp:
    """Return the dashboard as an ASGI application. It runs on asyncio.

    :param settings: Scrapy's settings, as ``scrapy.utils.project.get_project_settings()`` returns them.
        Unless *authenticate* is given, users log in with their ``FRONTIER_DASHBOARD_PASSWORD``; if it is
        not set, with *token*; without both, anybody can look at the dashboard.
    :param spider: the only spider to show; by default, all spiders are shown.
    :param redis_key: the key of the seeds, if it is not the one of the spider's class.
    :param actions: whether users may change crawls. This needs a password, *authenticate* or *token*: any
        program on the machine, also a worker with a hostile seed, could do the actions of an open dashboard.
    :param authenticate: a function that gets each request (a ``starlette.requests.HTTPConnection``) and
        returns the user's name, for the audit list. None, False or an empty name refuses the request. It
        may also be a coroutine function.
    :param token: a random text, such as ``secrets.token_urlsafe()``, instead of a password. A browser that
        opens ``/?token=…`` once is logged in.
    :param allowed_hosts: the names, without a port, that the header ``Host`` may contain; by default, those
        of this machine. Give ``["*"]`` if the application that mounts the dashboard checks the header.
    :param open_metrics: whether ``/metrics``, which needs the extra ``metrics``, is open without a login.
    :param is_closing: returns whether the server is about to close; the streams to browsers then end.
    :param max_streams: concurrent streams to browsers, at most. The pages of further browsers poll.
    :param logs: a folder: users see the last lines of the workers' logs below it. By default they see none.
    :raises SettingError: if a setting has an invalid value, or *actions* is true without a login.
    """
    password = password_of(settings)
    _check_login(actions, token, has_login=bool(password or token or authenticate))
    executor = ThreadPoolExecutor(THREADS, "frontier-dashboard")
    frontiers = Frontiers(settings, spider, redis_key)
    pictures = Pictures(frontiers, executor)
    api, files = Api(pictures, actions, executor, Logs(logs)), Files()
    # A dashboard without actions writes nothing into Redis.
    report = GuessReport(lambda: frontiers.existing(MOST_FRONTIERS) if actions else [], executor)
    login = Login(password, authenticate, token, Guesses(report=report.wrong))
    entrance = Entrance(login, files)

    def redis_failed(request: Request, error: Exception) -> Response:
        assert isinstance(error, RedisError)  # noqa: S101 - registered for this class only
        return refusal(frontiers.describe(error), 503)

    looking = {
        "about": api.about,
        "status": api.status,
        "workers": api.workers,
        "worker": api.worker,
        "slots": api.slots,
        "pools": api.pools,
        "peek": api.peek,
        "failed": api.failed,
        "failed/counts": api.counts,
        "explain": api.explain,
        "events": api.events,
        "history": api.history,
        "audit": api.audit,
        "stream": Stream(pictures, login.sessions, is_closing, max_streams).stream,
    }
    routes = [
        Route("/", files.page),
        Route("/static/{name}", files.file),
        Route(METRICS_PATH, MetricsPage(settings, spider, executor).metrics),
        Route(LOGIN_PATH, entrance.login, methods=["POST"]),
        Route(LOGOUT_PATH, entrance.logout, methods=["POST"]),
        *(Route(f"/api/v1/{path}", look) for path, look in looking.items()),
        *(
            Route(f"/api/v1/{path}", endpoint(pictures, executor, path, action), methods=["POST"])
            for path, action in ACTIONS.items()
        ),
    ]
    handlers: dict[Any, Any] = {
        HTTPException: _refused,
        FrontierError: _not_done,
        RedisError: redis_failed,
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    hosts = LOOPBACK if allowed_hosts is None else allowed_hosts
    return Guard(app, login, entrance, actions, hosts, open_paths=[METRICS_PATH] if open_metrics else [])


def _check_login(actions: bool, token: str, has_login: bool) -> None:
    if token and len(token) < SHORTEST_TOKEN:
        raise SettingError(
            f"token must have at least {SHORTEST_TOKEN} characters: a shorter one can be guessed. Use "
            "secrets.token_urlsafe()"
        )
    if actions and not has_login:
        raise SettingError(
            "A dashboard with actions needs a login: without one, any program on this machine could control "
            "the crawls. Set FRONTIER_DASHBOARD_PASSWORD, or give create_app() authenticate=FUNCTION or "
            "token=secrets.token_urlsafe()"
        )


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class only
    return refusal(error.detail, error.status_code, error.headers)


def _not_done(request: Request, error: Exception) -> Response:
    return refusal(error, 400)
