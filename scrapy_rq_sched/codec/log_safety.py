"""Refuse requests from Redis that would forge lines of the log, or send escapes to a terminal.

Scrapy's log repeats the method, the URL and the ``Referer`` of a request as they are, errors of a download
repeat the host and the proxy, with ``COOKIES_DEBUG`` the log has the cookies, and the error of a callback has
the name of an argument. All functions return the problem, or an empty text. The path of the crawl uses them,
so a caller first looks whether a field is plain.
"""

from __future__ import annotations

import re
from typing import Any

from scrapy import Request
from scrapy.http import Headers

from ..errors import shown

#: Characters of a value that are shown.
LONGEST = 100
#: A token of RFC 9110.
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
#: Control characters, separators of lines, marks that change the direction of text, and halves of characters,
#: which the log cannot encode. ``str.isprintable()`` is false for a text with any of them.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
#: The bytes that no header may contain. Other bytes may be text in any encoding.
_CONTROL_BYTE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
#: The headers that Scrapy logs, and the keys of ``meta`` with a text that errors of a download repeat.
_LOGGED_HEADERS = ("Referer", "Cookie")
_LOGGED_META = ("download_slot", "proxy", "bindaddress")


def problem_of(request: Request) -> str:
    """Return the problem with a field of *request* that Scrapy logs."""
    return (
        of_url(request.url)
        or of_method(request.method)
        or (of_headers(request.headers) if request.headers else "")
        or (of_cookies(request.cookies) if request.cookies else "")
        or of_meta(request.meta)
        or (of_arguments(request.cb_kwargs) if request.cb_kwargs else "")
    )


def of_url(url: str) -> str:
    """Return the problem with a URL.

    ``Request`` escapes most of it, but not the host, nor a URL with the meta key ``verbatim_url``.
    """
    return "" if url.isprintable() else f"url must have printable characters only: {_short(url)}"


def of_method(method: str) -> str:
    """Return the problem with a method."""
    return "" if _TOKEN.fullmatch(method) else f"method must be a token, such as GET, not {_short(method)}"


def of_meta(meta: dict[Any, Any]) -> str:
    """Return the problem with a text in *meta*."""
    for name in _LOGGED_META:
        text = meta.get(name)
        if isinstance(text, str) and not text.isprintable() and _CONTROL.search(text):
            return _refusal(f"meta[{name!r}]", text)
    return ""


def of_arguments(cb_kwargs: dict[Any, Any]) -> str:
    """Return the problem with the name of a callback's argument."""
    for name in cb_kwargs:
        if isinstance(name, str) and not name.isprintable() and _CONTROL.search(name):
            return _refusal("the name of a field in cb_kwargs", name)
    return ""


def are_plain(headers: Any) -> bool:
    """Return whether *headers*, as in Redis, are a dict of printable ASCII texts, which have no problem."""
    if not isinstance(headers, dict):
        return False
    try:
        text = "".join((*headers, *headers.values()))
    except TypeError:  # bytes, or a list of values
        return False
    return text.isascii() and text.isprintable()


def of_headers(headers: Headers) -> str:
    """Return the problem with a header: with its bytes, because an encoding can turn text into escapes."""
    for name, values in dict.items(headers):
        for value in (name, *values):
            if _CONTROL_BYTE.search(value):
                return _refusal(f"header {_short(name)}", value)
    for logged in _LOGGED_HEADERS:
        text = (headers.get(logged) or b"").decode("utf-8", "replace")
        if not text.isprintable():
            return f"header {logged!r} must have printable characters only: {_short(text)}"
    return ""


def of_cookies(cookies: Any) -> str:
    """Return the problem with a cookie."""
    several = cookies if isinstance(cookies, list) else [cookies]
    for name, value in (pair for one in several if isinstance(one, dict) for pair in one.items()):
        for part in (name, value):
            text = part.decode("latin-1") if isinstance(part, bytes) else part
            if isinstance(text, str) and _CONTROL.search(text):
                return _refusal(f"cookie {_short(name)}", value)
    return ""


def _refusal(field: str, value: object) -> str:
    return f"{field} must not contain control characters: {_short(value)}"


def _short(value: Any) -> str:
    text = shown(value[: LONGEST + 1] if isinstance(value, (str, bytes)) else value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
