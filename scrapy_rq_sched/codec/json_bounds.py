"""Bound the memory that JSON from Redis becomes: a short text can stand for millions of Python objects."""

from __future__ import annotations

import json
import re
from typing import Any

#: The values that a text may have, with the names of fields: each becomes an object, of up to 300 bytes.
MOST_VALUES = 250_000
#: The reason for which a text of more values is refused.
TOO_MANY = f"it has more than {MOST_VALUES:,} values"

_MARKS = (",", ":", "[", "{")
# The last alternative matches a string without an end. Otherwise the search would begin anew at each of its
# quotes.
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)


def loads(text: str | bytes, **options: Any) -> Any:
    """Return the object in *text*, as :func:`json.loads` does with these *options*.

    :raises ValueError: if *text* is not JSON, or has more than :data:`MOST_VALUES` values.
    """
    check(text)
    return json.loads(text, **options)


def check(text: str | bytes) -> None:
    """Check the number of values in *text*.

    :raises ValueError: if it is more than :data:`MOST_VALUES`.
    """
    # A value has at least one character. So most texts need no count.
    if len(text) > MOST_VALUES and _count(text, MOST_VALUES) > MOST_VALUES:
        raise ValueError(TOO_MANY)


def _count(text: str | bytes, enough: int) -> int:
    """Return the number of values in *text*, or a higher number if it is at most *enough*."""
    if isinstance(text, bytes):
        # Each mark is this byte in every encoding that JSON may have.
        count = sum(text.count(mark.encode()) for mark in _MARKS)
        if count <= enough:
            return count
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    # Marks within strings do not count.
    text = _STRING.sub("", text)
    return sum(map(text.count, _MARKS))
