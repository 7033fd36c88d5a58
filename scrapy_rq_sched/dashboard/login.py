"""The login: by password, by the function of an application, or none."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import inspect
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.requests import HTTPConnection

#: A function of the application that mounts the dashboard. It returns the user's name, or None to refuse.
Authenticate = Callable[[HTTPConnection], str | Awaitable[str | None] | None]

#: The name of the user who logs in with the password.
USER = "frontier"


class Who(NamedTuple):
    """The sender of a request.

    :param name: the user's name; empty if the login asks for none.
    :param has_token: whether the request has the password as a bearer token: a page of another site cannot
        send that.
    """

    name: str
    has_token: bool = False


class Login:
    """Identifies the user of a request.

    :param password: the password; empty if none is needed.
    :param authenticate: a function that decides instead of the password.
    """

    def __init__(self, password: str = "", authenticate: Authenticate | None = None) -> None:
        self._has_password = bool(password)
        self._digest = _digest(encoded(password))
        self._authenticate = authenticate

    async def who(self, connection: HTTPConnection) -> Who | None:
        """Return the user of a request; None if the request is refused."""
        if self._authenticate is not None:
            name = self._authenticate(connection)
            if inspect.isawaitable(name):
                name = await name
            # False or an empty name refuses the request, like None.
            return Who(str(name)) if name else None
        if not self._has_password:
            return Who("")
        scheme, _, said = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_it(said.strip().encode("latin-1")):
            return Who("", has_token=True)
        if scheme.lower() == "basic":
            user, colon, password = _decoded(said).partition(b":")
            # Compare both, so that the time does not reveal which of them was wrong.
            is_user = hmac.compare_digest(user, USER.encode())
            if self._is_it(password) and is_user and colon:
                return Who(USER)
        return None

    def _is_it(self, password: bytes) -> bool:
        # Compare digests, so that the time does not reveal the length of the password.
        return hmac.compare_digest(_digest(password), self._digest)


def encoded(password: str) -> bytes:
    """Return the bytes of *password*; the environment may have it in another encoding than UTF-8."""
    return password.encode("utf-8", "surrogateescape")


def _digest(password: bytes) -> bytes:
    return hashlib.sha256(password).digest()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return b""
