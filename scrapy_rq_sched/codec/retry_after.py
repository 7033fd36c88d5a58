"""How long a site asks to wait: the header ``Retry-After``, and the headers of rate limits."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import timezone
from email.utils import parsedate_to_datetime

#: Returns the value of a header, or None if the response does not have it.
Header = Callable[[str], str | None]

#: The longest time that a site may ask to wait, in seconds: a day.
LONGEST = 86_400.0
#: The longest time after which a count of requests begins anew that is believed, in seconds.
LONGEST_RESET = 3600.0
#: From these on, a number is a time in seconds or milliseconds since 1970, and not a number of seconds.
_FIRST_TIME, _FIRST_MS = 1e9, 1e12
#: In the header ``RateLimit``: how many requests remain, and in how many seconds the count begins anew. The
#: names are those of draft-ietf-httpapi-ratelimit-headers: ``r`` and ``t`` since version 8, before that the
#: long ones.
_REMAINING = re.compile(r"(?:^|[;,\s])(?:r|remaining)\s*=\s*(\d+)")
_RESET = re.compile(r"(?:^|[;,\s])(?:t|reset)\s*=\s*(\d+)")


def retry_after(value: str | None, now: float) -> float | None:
    """Return how many seconds a site asks to wait by the header ``Retry-After`` (RFC 9110, 10.2.3).

    :param value: the header: a number of seconds, or a date; None if it is missing.
    :param now: the time, in seconds since 1970.
    :return: at most a day; None if the header is missing or not valid, or asks for no time.
    """
    if value is None:
        return None
    number = _number(value)
    if number is not None:
        seconds = _from_now(number, now)
    elif (date := date_of(value)) is not None:
        seconds = date - now
    else:
        return None
    return min(seconds, LONGEST) if seconds > 0 else None


def date_of(value: str | None) -> float | None:
    """Return the date of a header, in seconds since 1970; None if it is missing or not valid."""
    try:
        date = parsedate_to_datetime((value or "").strip())
        # A date without a zone is in GMT: HTTP has no other.
        return date.replace(tzinfo=date.tzinfo or timezone.utc).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def rate_limit_wait(header: Header, now: float) -> float | None:
    """Return in how many seconds a site takes the next request, if it says that it takes none before.

    :param header: returns the headers of a response: ``RateLimit``, or ``RateLimit-Remaining`` and
        ``RateLimit-Reset``, with or without ``X-`` before them.
    :param now: the time, in seconds since 1970.
    :return: at most an hour; None if the site takes more requests, or does not say.
    """
    remaining, reset = None, None
    if limit := header("RateLimit"):
        remaining, reset = (_first(pattern, limit) for pattern in (_REMAINING, _RESET))
    for prefix in ("", "X-"):
        if remaining is None or reset is None:
            remaining = _number(header(f"{prefix}RateLimit-Remaining"))
            reset = _number(header(f"{prefix}RateLimit-Reset"))
    if remaining is None or reset is None or remaining >= 1:
        return None
    seconds = _from_now(reset, now)
    return min(seconds, LONGEST_RESET) if seconds > 0 else None


def _from_now(number: float, now: float) -> float:
    """Return in how many seconds the time *number* is, or that number of seconds."""
    if number >= _FIRST_MS:
        return number / 1000 - now
    return number - now if number >= _FIRST_TIME else number


def _first(pattern: re.Pattern[str], text: str) -> float | None:
    found = pattern.search(text)
    return float(found[1]) if found else None


def _number(value: str | None) -> float | None:
    """Return the number in *value*, at least 0; None if it has none."""
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
