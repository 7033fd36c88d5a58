"""The login: by password, by the link of a start, by the function of an application, or none."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import inspect
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.requests import HTTPConnection

from .guesses import Guesses
from .sessions import Sessions

#: A function of the application that mounts the dashboard. It returns the user's name, or None to refuse.
Authenticate = Callable[[HTTPConnection], str | Awaitable[str | None] | None]

#: The name of the user who logs in with the password.
USER = "frontier"
#: Connections of programs whose login is remembered.
MOST_CONNECTIONS = 1000


class Sender(NamedTuple):
    """The sender of a request.

    :param name: the user's name; empty if the login asks for none.
    :param has_token: whether the request has the password or token as a bearer token: a page of another site
        cannot send that.
    :param has_session: whether the request belongs to the session of a browser.
    """

    name: str
    has_token: bool = False
    has_session: bool = False


class Login:
    """Identifies the user of a request.

    :param password: the password; empty if it is not set.
    :param authenticate: a function that decides instead of the password.
    :param token: the token of the link; it is used if there is no password.
    :param guesses: limits the guesses.
    """

    def __init__(
        self,
        password: str = "",
        authenticate: Authenticate | None = None,
        token: str = "",
        guesses: Guesses | None = None,
    ) -> None:
        self._secret = _digest(encoded(password or token))
        self._authenticate = authenticate
        self._guesses = guesses or Guesses()
        self.has_password = authenticate is None and bool(password)
        self.has_link = authenticate is None and not password and bool(token)
        self.sessions = Sessions()
        self._recognized = _Recognized()

    @property
    def user(self) -> str:
        """The name of the user who logs in; empty for the link, which names nobody."""
        return USER if self.has_password else ""

    async def sender_of(self, connection: HTTPConnection) -> Sender | None:
        """Return the user of a request; None if the request is refused.

        :raises TooManyGuessesError: if too many logins wait.
        """
        if self._authenticate is not None:
            name = self._authenticate(connection)
            if inspect.isawaitable(name):
                name = await name
            # False or an empty name refuses the request, like None.
            return Sender(str(name)) if name else None
        if not (self.has_password or self.has_link):
            return Sender("")
        user = self.sessions.user_of(connection)
        if user is not None:
            return Sender(user, has_session=True)
        header = connection.headers.get("authorization", "")
        scheme, _, credentials = header.partition(" ")
        if scheme.lower() == "bearer":
            is_right = await self._knows(
                connection, header, lambda: self._is_secret(_sent(credentials.strip()))
            )
            return Sender("", has_token=True) if is_right else None
        if scheme.lower() == "basic":
            is_right = await self._knows(connection, header, lambda: self._is_user(credentials))
            return Sender(self.user) if is_right else None
        return None

    async def is_right(self, connection: HTTPConnection, secret: str) -> bool:
        """Return whether *secret*, which a browser has sent, is the password or token.

        A token, which cannot be guessed, does not wait behind guesses.

        :raises TooManyGuessesError: if too many logins wait.
        """
        sent = secret.encode("utf-8", "replace")
        if self.has_link and self._is_secret(sent):
            return True
        return await self._guesses.attempt(_address(connection), lambda: self._is_secret(sent))

    async def _knows(self, connection: HTTPConnection, header: str, check: Callable[[], bool]) -> bool:
        if self._recognized.has(connection, header) or (self.has_link and check()):
            return True
        is_right = await self._guesses.attempt(_address(connection), check)
        if is_right:
            self._recognized.add(connection, header)
        return is_right

    def _is_user(self, credentials: str) -> bool:
        user, colon, password = _decoded(credentials).partition(b":")
        # Compare both, so that the time does not reveal which of them was wrong.
        is_user = hmac.compare_digest(user, USER.encode())
        return self._is_secret(password) and is_user and bool(colon)

    def _is_secret(self, sent: bytes) -> bool:
        # Compare digests, so that the time does not reveal the length of the secret.
        return hmac.compare_digest(_digest(sent), self._secret)


class _Recognized:
    """The last right login of each connection, which need not wait behind guesses.

    It belongs to the connection, and not to the address: else a program at the same address could compare its
    guesses with it, without a limit.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._logins = OrderedDict[tuple[str, int], bytes]()

    def has(self, connection: HTTPConnection, header: str) -> bool:
        """Return whether the connection has logged in with *header*; another login is forgotten."""
        client = connection.client
        known = self._logins.pop((client.host, client.port), b"") if client else b""
        is_known = hmac.compare_digest(known, self._digest(header))
        if is_known:
            self.add(connection, header)
        return is_known

    def add(self, connection: HTTPConnection, header: str) -> None:
        """Remember a right login. Behind a proxy the port, which identifies the connection, is unknown: 0."""
        client = connection.client
        if client and client.port:
            self._logins[client.host, client.port] = self._digest(header)
            while len(self._logins) > MOST_CONNECTIONS:
                self._logins.popitem(last=False)

    def _digest(self, header: str) -> bytes:
        return hmac.digest(self._key, _sent(header), "sha256")


#: Passwords that guessers try first, and that are longer than the shortest good one.
_WELL_KNOWN = [
    "passwordpassword",
    "administrator",
    "adminadminadmin",
    "changemechangeme",
    "letmeinletmein",
    "qwertyuiopasdf",
    "1q2w3e4r5t6y",
    "qwertyuiop123",
    "password12345",
    "correcthorsebatterystaple",
    "scrapyfrontier",
]
#: Characters of a good password, at least, and different ones among them.
SHORTEST, FEWEST = 12, 5


def weakness(password: str) -> str:
    """Return the reason why *password* can be guessed, as the end of a sentence; empty if it seems good."""
    if len(password) < SHORTEST:
        return f"has fewer than {SHORTEST} characters"
    if len(set(password)) < FEWEST:
        return f"has fewer than {FEWEST} different characters"
    plain = password.lower()
    if plain in _WELL_KNOWN or plain in "0123456789" * 10:
        return "is well known"
    return ""


def encoded(password: str) -> bytes:
    """Return the bytes of *password*; the environment may have it in another encoding than UTF-8."""
    return password.encode("utf-8", "surrogateescape")


def _address(connection: HTTPConnection) -> str:
    return connection.client.host if connection.client else ""


def _sent(text: str) -> bytes:
    return text.encode("latin-1", "replace")


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return b""
