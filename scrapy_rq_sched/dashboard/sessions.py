"""The sessions of browsers that have logged in: each is a random cookie, and lasts until the log-out."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import quote

from starlette.requests import HTTPConnection
from starlette.responses import Response

#: Sessions at a time. The one that was not used for the longest time ends first.
MOST = 1000
#: Seconds without a request after which a session ends.
IDLE = 12 * 3600.0


class Sessions:
    """The sessions, in the memory of this process."""

    def __init__(self) -> None:
        # By the digest, so that the time of a search tells nothing about a cookie.
        self._used = OrderedDict[bytes, tuple[str, float]]()

    def begin(self, user: str, connection: HTTPConnection, response: Response) -> None:
        """Begin a session of *user*: *response* sets its cookie."""
        cookie = secrets.token_urlsafe(32)
        self._used[_digest(cookie)] = user, time.monotonic()
        while len(self._used) > MOST:
            self._used.popitem(last=False)
        response.set_cookie(
            _name(connection),
            cookie,
            path=_path(connection),
            secure=connection.scope.get("scheme") == "https",
            httponly=True,
            samesite="strict",
        )

    def user_of(self, connection: HTTPConnection) -> str | None:
        """Return the user of the session that a request belongs to; None without a session."""
        now = time.monotonic()
        for digest in _digests(connection):
            user, used = self._used.pop(digest, ("", 0.0))
            if used and now - used < IDLE:
                self._used[digest] = user, now
                return user
        return None

    def watch(self, connection: HTTPConnection) -> Callable[[], bool]:
        """Return a function that tells whether the session that a request belongs to still lasts."""
        digests = [digest for digest in _digests(connection) if digest in self._used]
        return lambda: any(digest in self._used for digest in digests)

    def end(self, connection: HTTPConnection, response: Response) -> None:
        """End the session that a request belongs to: *response* deletes its cookie."""
        for digest in _digests(connection):
            self._used.pop(digest, None)
        response.delete_cookie(
            _name(connection),
            path=_path(connection),
            secure=connection.scope.get("scheme") == "https",
            httponly=True,
            samesite="strict",
        )


def _name(connection: HTTPConnection) -> str:
    # Browsers send a cookie to all ports of a host: two dashboards on one host must not share a name.
    port = connection.headers.get("host", "").rpartition(":")[2]
    secure = connection.scope.get("scheme") == "https"
    is_port = port.isascii() and port.isdecimal() and len(port) < 6
    return f"frontier-{port if is_port else 443 if secure else 80}"


def _path(connection: HTTPConnection) -> str:
    return quote(connection.scope.get("root_path", "").rstrip("/")) + "/"


def _digests(connection: HTTPConnection) -> list[bytes]:
    """Return the digests of all cookies with the right name: one of another path may be among them."""
    name = _name(connection)
    pairs = [
        pair.strip().partition("=")
        for header in connection.headers.getlist("cookie")
        for pair in header.split(";")
    ]
    return [_digest(value) for key, _, value in pairs if key == name]


def _digest(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("latin-1", "replace")).digest()
