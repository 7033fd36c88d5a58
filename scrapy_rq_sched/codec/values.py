"""Small values that a frontier has in Redis as text, where another program may have written anything."""

from __future__ import annotations

from typing import Any


def text_of(data: bytes | None) -> str:
    """Return *data* as text; empty if it is None."""
    return (data or b"").decode("utf-8", "replace")


def whole_of(value: Any) -> int:
    """Return *value* as an integer; 0 if it is not valid."""
    try:
        number = int(value or 0)
    except (ValueError, TypeError, OverflowError):
        return 0
    return number if abs(number) < 2**63 else 0


def number_of(value: Any) -> float:
    """Return *value* as a number; 0 if it is not valid, negative, or too large for a time or a count."""
    try:
        number = float(value or 0)
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return number if 0 <= number < 9e15 else 0.0


def class_path(cls: type) -> str:
    """Return the name by which settings, and the frontier, name *cls*."""
    return f"{cls.__module__}.{cls.__qualname__}"
