"""What the items of pools need of Scrapy: the answers to their requests, and their cookies."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.cookiejar import Cookie
from typing import Any, Protocol

from scrapy import Request, signals
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware
from scrapy.http import Response
from scrapy.http.cookies import CookieJar

from ..errors import one_line
from .answers import NO_ANSWER, NO_CONNECTION, SHOWN

#: Failures of a proxy that opens no tunnel.
_TUNNEL = ("TunnelError",)
#: What a cookie consists of: the arguments of ``http.cookiejar.Cookie`` with these names.
_FIELDS = (
    *("version", "name", "value", "port", "port_specified", "domain", "domain_specified"),
    *(
        "domain_initial_dot",
        "path",
        "path_specified",
        "secure",
        "expires",
        "discard",
        "comment",
        "comment_url",
    ),
)


class Items(Protocol):
    """What hears the answers."""

    jars: Any

    def give(self, request: Request) -> None:
        """Give *request*, which is about to be sent, what its item is for, unless it was given that."""

    def hear(self, request: Request, status: int, header: Callable[[str], str | None]) -> None:
        """Note the answer to *request*."""

    def miss(self, request: Request, reason: str) -> None:
        """Note that there was no answer to *request*."""

    def end(self, request: Request) -> None:
        """Note that *request* may have been sent, and there is no answer of which its item is to blame."""


class ItemAnswers:
    """Tell *items* each answer, also to a request that the scheduler does not know, and each failure."""

    def __init__(self, engine: Any, items: Items) -> None:
        self._items = items
        engine.signals.connect(self._downloaded, signals.response_downloaded)
        methods = engine.downloader.middleware.methods
        # Before the middlewares for cookies and proxies.
        methods["process_request"].appendleft(self._begins)
        # The first middleware that is asked sees the failure as it is, and no signal tells of it.
        methods["process_exception"].appendleft(self._failed)

    def _begins(self, request: Request, spider: Any = None) -> None:
        self._items.give(request)

    def _downloaded(self, response: Response, request: Request) -> None:
        def header(name: str) -> str | None:
            value = response.headers.get(name)
            return None if value is None else value.decode("latin-1")

        self._items.hear(request, response.status, header)

    def _failed(self, request: Request, exception: Exception, spider: Any = None) -> None:
        is_no_answer = (
            isinstance(exception, (*NO_CONNECTION, *NO_ANSWER)) or type(exception).__name__ in _TUNNEL
        )
        if not is_no_answer:  # such as a response that is too large
            self._items.end(request)
        else:
            self._items.miss(request, one_line(f"{type(exception).__name__}: {exception}")[:SHOWN])


class CookieJars:
    """The cookies in Scrapy's middleware.

    :param middleware: the middleware.
    """

    def __init__(self, middleware: CookiesMiddleware) -> None:
        self._jars = middleware.jars

    def load(self, key: str, cookies: str) -> None:
        """Replace the cookies at *key* by those in the JSON text *cookies*."""
        jar = self._jars[key] = CookieJar()
        try:
            for its in json.loads(cookies or "[]"):
                jar.set_cookie(Cookie(**dict(zip(_FIELDS, its, strict=True)), rest={}))
        except (ValueError, TypeError):  # another program has changed them: the item logs in again
            self._jars[key] = CookieJar()

    def dump(self, key: str) -> str:
        """Return the cookies at *key* as JSON text, in a fixed order; empty if there are none."""
        cookies = [[getattr(cookie, name) for name in _FIELDS] for cookie in self._jars[key]]
        return json.dumps(sorted(cookies, key=str)) if cookies else ""


def cookie_jars(engine: Any) -> CookieJars | None:
    """Return the cookies of a crawl; None if it has no ``CookiesMiddleware``."""
    for middleware in engine.downloader.middleware.middlewares:
        if isinstance(middleware, CookiesMiddleware):
            return CookieJars(middleware)
    return None
