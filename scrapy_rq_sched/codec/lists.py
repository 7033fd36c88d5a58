"""Read a list from a setting, which is text if it comes from the command line or the environment."""

from __future__ import annotations

import json
from typing import Any


def as_list(value: Any) -> list[Any]:
    """Return the values of *value*: a list, tuple or set, JSON text of a list, or text with commas.

    :raises TypeError: if *value* is anything else.
    """
    if isinstance(value, str):
        return _of_text(value.strip())
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    raise TypeError(f"not a list: {value!r}")


def _of_text(text: str) -> list[Any]:
    if text.startswith("["):
        try:
            values = json.loads(text)
        except ValueError:
            pass  # the first value begins with a bracket
        else:
            return list(values)
    return [part.strip() for part in text.split(",")] if text else []
