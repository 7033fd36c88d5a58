"""Who may look: anybody on a dashboard without a password, else who knows it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import inspect
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.requests import HTTPConnection

#: Says who sends a request; None if they may not look. Of those who embed the dashboard.
Authenticate = Callable[[HTTPConnection], str | Awaitable[str | None] | None]

#: The user's name for the password.
USER = "frontier"


class Who(NamedTuple):
    """Who sends a request.

    :param name: their name; empty if nobody is asked for one.
    :param has_token: whether they have sent the password as a bearer's token: no page of another site can.
    """

    name: str
    has_token: bool = False


class Login:
    """Finds out who sends a request.

    :param password: what has to be known; empty for nothing.
    :param authenticate: what decides instead. Without a name nobody may look.
    """

    def __init__(self, password: str = "", authenticate: Authenticate | None = None) -> None:
        self._has_password = bool(password)
        self._digest = _digest(password.encode())
        self._authenticate = authenticate

    async def who(self, connection: HTTPConnection) -> Who | None:
        """Return who sends a request; None if they may not look."""
        if self._authenticate is not None:
            name = self._authenticate(connection)
            if inspect.isawaitable(name):
                name = await name
            # Whoever answers with False, or with a name that is empty, does not mean that they may.
            return Who(str(name)) if name else None
        if not self._has_password:
            return Who("")
        scheme, _, said = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_it(said.strip().encode("latin-1")):
            return Who("", has_token=True)
        if scheme.lower() == "basic":
            user, colon, password = _decoded(said).partition(b":")
            # Both are compared, so that the time says of neither whether it was right.
            is_user = hmac.compare_digest(user, USER.encode())
            if self._is_it(password) and is_user and colon:
                return Who(USER)
        return None

    def _is_it(self, password: bytes) -> bool:
        # Of digests, so that the time does not say either how long the password is.
        return hmac.compare_digest(_digest(password), self._digest)


def _digest(password: bytes) -> bytes:
    return hashlib.sha256(password).digest()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return b""
