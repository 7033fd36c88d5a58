"""The functions of scrapy-redis's ``utils``, which a ``make_request_from_data`` often uses."""

from __future__ import annotations

import json
from typing import Any


class TextColor:
    """Escape sequences for the colours of a terminal."""

    HEADER = "\033[95m"
    OKBLUE = "\033[94m"
    OKCYAN = "\033[96m"
    OKGREEN = "\033[92m"
    WARNING = "\033[93m"
    FAIL = "\033[91m"
    ENDC = "\033[0m"
    BOLD = "\033[1m"
    UNDERLINE = "\033[4m"


def bytes_to_str(s: Any, encoding: str = "utf-8") -> Any:
    """Return *s* as text if it is bytes; else return it unchanged.

    :raises UnicodeDecodeError: if *s* is not text in *encoding*.
    """
    return s.decode(encoding) if isinstance(s, bytes) else s


def is_dict(string_content: str | bytes) -> bool:
    """Return whether *string_content* is JSON of any kind, not only an object, as in scrapy-redis."""
    try:
        json.loads(string_content)
    except json.JSONDecodeError:
        return False
    return True


def convert_bytes_to_str(data: Any, encoding: str = "utf-8") -> Any:
    """Return *data* with bytes decoded to text; in a dict, its keys and values."""
    if isinstance(data, dict):
        return {bytes_to_str(key, encoding): bytes_to_str(value, encoding) for key, value in data.items()}
    return bytes_to_str(data, encoding)
