"""Find values that JSON would change; and store bytes in JSON as ``{"$bytes": "<base64>"}``."""

from __future__ import annotations

import base64
import math
import re
from typing import Any

from ..errors import a_type

_BYTES = "$bytes"
_SCALARS = frozenset({str, bool, int, bytes, type(None)})


def tag_bytes(value: Any) -> dict[str, str]:
    """Return the JSON object for *value*, which must be bytes; for :class:`json.JSONEncoder`."""
    if type(value) is bytes:
        return {_BYTES: base64.b64encode(value).decode()}
    raise TypeError(f"JSON cannot represent {a_type(type(value))}")


def untag_bytes(value: dict[str, Any]) -> Any:
    """Return the bytes in *value*, or *value* if it is another object; for :func:`json.loads`."""
    return base64.b64decode(value[_BYTES], validate=True) if len(value) == 1 and _BYTES in value else value


def without_brackets(path: str, suffix: str) -> str:
    """Return *path*, a place in a request's dict, followed by *suffix*."""
    # Without the brackets of the first field: meta['depth'], not ['meta']['depth'].
    return re.sub(r"^\['(\w+)'\]", r"\1", path) + suffix


def problem(value: Any) -> tuple[str, str] | None:
    """Return the path of the first value in *value* that JSON would change, and the problem; or None."""
    kind = type(value)
    if kind in _SCALARS:
        return None
    if kind is float:
        return None if math.isfinite(value) else ("", f" is {value}, which JSON cannot represent")
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                return "", f" has the key {key!r}, which JSON would turn into text"
            if key == _BYTES:
                return "", f" has the key {_BYTES!r}, which is reserved for bytes"
            within = None if type(item) in _SCALARS else problem(item)
            if within:
                return f"[{key!r}]{within[0]}", within[1]
    elif kind is list:
        for index, item in enumerate(value):
            within = problem(item)
            if within:
                return f"[{index}]{within[0]}", within[1]
    else:
        return "", f" is {a_type(kind)}, which JSON would change"
    return None
