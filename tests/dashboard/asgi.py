"""Requests to an ASGI application without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

HOST = "127.0.0.1:8000"
#: The token of the dashboards whose tests are about something else than the login.
TOKEN = "a-token-that-the-tests-know"
#: The cookies of the dashboards at which the tests are logged in; empty before the first request.
_COOKIES: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


@dataclass(frozen=True)
class Answer:
    """What the application has answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.json()["error"])


def ask(
    app: Any,
    path: str,
    method: str = "GET",
    headers: Mapping[str, str | None] | None = None,
    body: Any = None,
    root_path: str = "",
    scope_type: str = "http",
    client: tuple[str, int] = ("192.0.2.7", 5000),
    scheme: str = "http",
) -> Answer:
    """Return what *app* answers.

    :param path: with the query, if there is one.
    :param headers: besides ``Host``, or instead of it; None takes one away.
    :param body: bytes, or what is sent as JSON.
    """
    path, _, query = path.partition("?")
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    if _COOKIES.get(app) == "":
        del _COOKIES[app]
        _COOKIES[app] = ask(app, f"/?token={TOKEN}").headers["set-cookie"].partition(";")[0]
    own = {"host": HOST, "cookie": _COOKIES.get(app)}
    all_headers = {**own, **{name.lower(): value for name, value in (headers or {}).items()}}
    scope = {
        "type": scope_type,
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": scheme,
        "path": root_path + path,
        "raw_path": (root_path + path).encode(),
        "query_string": query.encode(),
        "root_path": root_path,
        "headers": [(k.encode(), v.encode()) for k, v in all_headers.items() if v is not None],
        "client": client,
        "server": ("127.0.0.1", 8000),
    }
    sent: list[dict[str, Any]] = []
    brought = [{"type": "http.request", "body": data, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if brought:
            return brought.pop()
        await asyncio.sleep(3600)
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    if scope_type != "http":
        return Answer(0, {}, json.dumps(sent[0]).encode())
    begin, *parts = sent
    names = {name.decode().lower(): value.decode() for name, value in begin["headers"]}
    return Answer(begin["status"], names, b"".join(part.get("body", b"") for part in parts))


def log_in(app: Any) -> None:
    """Have the first request open the link of *app*, whose token is :data:`TOKEN`."""
    _COOKIES[app] = ""


#: What the browser adds to a request of the dashboard's own page.
OWN = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}


def do(app: Any, action: str, headers: Mapping[str, str | None] = OWN, **body: Any) -> Answer:
    """Have *action* done, as the dashboard's own page does."""
    return ask(app, f"/api/v1/{action}", "POST", headers, body)
