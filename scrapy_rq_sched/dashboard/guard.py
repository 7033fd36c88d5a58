"""Check each request before it is answered, and add the security headers to each response.

Any page on any site can make a browser send requests, with the user's password. So a request that changes
something must come from the dashboard's own page, or from a program that knows the password.
"""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import bounded
from .answers import refusal
from .entrance import LOGIN_PATH, LOGOUT_PATH, Entrance, too_many
from .guesses import TooManyGuessesError
from .login import Login, Sender

#: The names of this machine for itself.
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
#: Instead of names: any host, because the application that mounts the dashboard checks them.
ANY_HOST = "*"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_SAFE, _METHODS = ("GET", "HEAD"), ("GET", "HEAD", "POST")


class Guard:
    """Passes allowed requests to *app*, and refuses the others.

    :param login: identifies the user of a request.
    :param entrance: lets browsers in and out.
    :param actions: whether users may change crawls.
    :param allowed_hosts: the names that the header ``Host`` may contain, without a port.
    :param open_paths: the paths that can be read without a login.
    """

    def __init__(
        self,
        app: ASGIApp,
        login: Login,
        entrance: Entrance,
        actions: bool,
        allowed_hosts: Collection[str],
        open_paths: Collection[str] = (),
    ) -> None:
        self._app = app
        self._login = login
        self._entrance = entrance
        self._actions = actions
        self._hosts = {host.lower() for host in allowed_hosts}
        self._open_paths = {*open_paths, *entrance.open_files()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        answer = await self._refusal(scope) or self._app
        await answer(scope, receive, send_with_headers)

    async def _refusal(self, scope: Scope) -> ASGIApp | None:
        connection = HTTPConnection(scope)
        headers, method = connection.headers, scope["method"]
        if not self._knows(headers.get("host", "")):
            # The refused name is text from outside, so the message does not repeat it.
            return _refused(
                403,
                "The name in the Host header is not allowed. Start the dashboard with --allowed-host NAME, "
                "or pass allowed_hosts to create_app()",
            )
        root = scope.get("root_path", "")
        path = scope["path"].removeprefix(root)
        if root and not path:
            # Also before a login: the page of the login has addresses relative to this one.
            return RedirectResponse(f"{root}/")
        if path in self._open_paths and method in _SAFE:
            return None
        if method == "GET" and self._entrance.is_link(connection, path):
            return await self._entrance.open_link(connection)
        # A browser that logs in has no name yet.
        logs_in = method == "POST" and path == LOGIN_PATH
        try:
            sender = Sender("") if logs_in else await self._login.sender_of(connection)
        except TooManyGuessesError:
            return too_many()
        if sender is None:
            return self._entrance.refusal(connection, path)
        state = scope.setdefault("state", {})
        state["who"], state["has_session"] = _named(sender, scope), sender.has_session
        if method not in _METHODS:
            return _refused(405, f"{method} is not supported", {"Allow": ", ".join(_METHODS)})
        if not sender.has_token and not _is_own(scope, headers):
            # The name of the host is one of those that are allowed; its port may be any text.
            host = bounded(headers.get("host", ""))
            return _refused(
                403,
                "The request seems to come from another site. Send it from the dashboard's page, or with "
                "Authorization: Bearer and the password, or with an Origin that equals the Host, which is "
                f"{host!r}. If a proxy has changed the Host, let it send that of the browser, with the port: "
                "in nginx, proxy_set_header Host $http_host",
            )
        if method in _SAFE:
            return None
        if not self._actions and path not in (LOGIN_PATH, LOGOUT_PATH):
            return _refused(403, "The dashboard is read-only. Start it with --actions")
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return _refused(415, "The body must be JSON, with Content-Type: application/json")
        return None

    def _knows(self, host: str) -> bool:
        if ANY_HOST in self._hosts:
            return True
        name = host.lower()
        if not name.endswith("]"):
            name = name.rpartition(":")[0] if ":" in name else name
        return name in self._hosts


def _is_own(scope: Scope, headers: Headers) -> bool:
    """Return whether a request comes from the dashboard's page; one that only reads may come from none."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if scope["method"] not in _SAFE:
        if site is not None:
            return site == "same-origin"
        # Never equal: a page without an origin ("null"), or a request without a host.
        own_host = (origin or "").partition("://")[2].lower()
        return bool(own_host) and own_host == headers.get("host", "").lower()
    if site in (None, "same-origin", "none"):
        return True
    # Another site may link to the page, but to nothing else.
    return headers.get("sec-fetch-mode") == "navigate" and "/api/v1/" not in scope["path"]


def _named(sender: Sender, scope: Scope) -> str:
    """Return the user and the address of a request, for the audit list."""
    client = scope.get("client")
    address = str(client[0]) if client else "an unknown address"
    return f"{sender.name} from {address}" if sender.name else address


def _refused(status: int, text: str, headers: dict[str, str] | None = None) -> ASGIApp:
    return refusal(text, status, headers)
