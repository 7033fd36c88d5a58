"""What is to be done, and to what: the JSON object that a request to change something has."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from ..errors import InspectionError

#: Bytes of a body.
LONGEST = 1_000_000


class Arguments:
    """The fields of a body, checked as they are asked for.

    :param fields: all of them.
    :param known: which there may be.
    :raises InspectionError: if there are others.
    """

    def __init__(self, fields: Mapping[str, Any], known: Collection[str]) -> None:
        unknown = sorted(set(fields) - set(known))
        if unknown:
            raise InspectionError(f"There may be {', '.join(sorted(known))}, and not {', '.join(unknown)}")
        self.fields = dict(fields)

    def text(self, name: str) -> str:
        """Return a text that is not empty."""
        value = self.optional(name)
        if not value:
            raise InspectionError(f"{name} is not given; it must be a text")
        return _whole(name, value)

    def optional(self, name: str) -> str | None:
        """Return a text; None if it is not given."""
        value = self.fields.get(name)
        if value is not None and not isinstance(value, str):
            raise InspectionError(f"{name} must be a text")
        return value

    def flag(self, name: str) -> bool:
        """Return whether something is wanted; by default it is not."""
        value = self.fields.get(name, False)
        if not isinstance(value, bool):
            raise InspectionError(f"{name} must be true or false")
        return value

    def number(self, name: str, least: float, most: float) -> float | None:
        """Return a number; None if it is not given."""
        value = self.fields.get(name)
        if value is None:
            return None
        # Neither NaN nor a number of more digits than a float may have is between two numbers.
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not least <= value <= most:
            raise InspectionError(f"{name} must be a number of {least:g} to {most:g}")
        return float(value)

    def texts(self, name: str, most: int) -> list[str]:
        """Return texts: one at least."""
        value = self.fields.get(name)
        if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
            raise InspectionError(f"{name} must be a list of texts")
        if len(value) > most:
            raise InspectionError(f"{name} has {len(value):,} texts; there may be {most:,} at a time")
        return [_whole(name, one) for one in value]


def _whole(name: str, text: str) -> str:
    """Return *text*, unless Redis cannot have it: JSON may have halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InspectionError(f"{name} has half a character: {text!r:.100}") from None
    return text


async def read_body(request: Request) -> dict[str, Any]:
    """Return the JSON object that *request* brings.

    :raises HTTPException: if it is none, or too long.
    """
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > LONGEST:
            raise HTTPException(413, f"The body may have {LONGEST:,} bytes")
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"The body is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise HTTPException(400, 'The body must be a JSON object such as {"spider": "shop"}')
    return fields
