"""Statistics as text in Redis: numbers and text unchanged, dates in ISO 8601, other values as JSON."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

_DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d:\d\d)?")


def is_number(value: Any) -> bool:
    """Return whether *value* can be added up in Redis."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def encode(value: Any) -> bytes:
    """Return *value* as bytes. A value that is neither JSON nor a date becomes its ``str()``."""
    if isinstance(value, datetime):
        text = value.isoformat()
    elif isinstance(value, str):
        # Text that would be decoded as another type is quoted.
        text = value if decode(value.encode("utf-8", "backslashreplace")) == value else json.dumps(value)
    else:
        try:
            text = json.dumps(value, default=_text)
        except (TypeError, ValueError, RecursionError):  # a key of an odd type, a circular reference
            text = encode(_text(value)).decode()
    return text.encode("utf-8", "backslashreplace")


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # one bad value must not keep the others from being sent
        return f"<{type(value).__name__}>"


def decode(data: bytes) -> Any:
    """Return the value of *data*."""
    text = data.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    if _DATE.fullmatch(text):
        try:
            return datetime.fromisoformat(text)
        except ValueError:  # a date that does not exist
            pass
    return text
