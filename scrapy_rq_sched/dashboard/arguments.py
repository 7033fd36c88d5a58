"""The arguments of an action: the JSON object in the body of a request."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from ..errors import InspectionError

#: Bytes of a body, at most.
LONGEST = 1_000_000


class Arguments:
    """The fields of a body. Each method checks the field that it returns.

    :param fields: all fields.
    :param known: the names of the allowed fields.
    :raises InspectionError: if there are other fields.
    """

    def __init__(self, fields: Mapping[str, Any], known: Collection[str]) -> None:
        unknown = sorted(set(fields) - set(known))
        if unknown:
            raise InspectionError(
                f"Unknown fields: {', '.join(unknown)}. The fields are {', '.join(sorted(known))}"
            )
        self.fields = dict(fields)

    def text(self, name: str) -> str:
        """Return a string that is not empty."""
        value = self.optional(name)
        if not value:
            raise InspectionError(f"{name} is missing; it must be a string")
        return _whole(name, value)

    def optional(self, name: str) -> str | None:
        """Return a string; None if it is not given."""
        value = self.fields.get(name)
        if value is not None and not isinstance(value, str):
            raise InspectionError(f"{name} must be a string")
        return value

    def flag(self, name: str) -> bool:
        """Return a boolean; false if it is not given."""
        value = self.fields.get(name, False)
        if not isinstance(value, bool):
            raise InspectionError(f"{name} must be true or false")
        return value

    def number(self, name: str, least: float, most: float) -> float | None:
        """Return a number; None if it is not given."""
        value = self.fields.get(name)
        if value is None:
            return None
        # The comparison also refuses NaN, and integers that are too large for a float.
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not least <= value <= most:
            raise InspectionError(f"{name} must be a number from {least:g} to {most:g}")
        return float(value)

    def texts(self, name: str, most: int, are_secret: bool = False) -> list[str]:
        """Return a list of one or more strings.

        :param are_secret: whether no error may show any of them.
        """
        value = self.fields.get(name)
        if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
            raise InspectionError(f"{name} must be a list of one or more strings")
        if len(value) > most:
            raise InspectionError(f"{name} has {len(value):,} entries; it must have at most {most:,}")
        return [_whole(name, one, are_secret) for one in value]


def _whole(name: str, text: str, is_secret: bool = False) -> str:
    """Return *text* if Redis can store it: JSON may contain lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = "" if is_secret else f": {text!r:.100}"
        raise InspectionError(f"{name} must be valid Unicode; it has a lone surrogate{shown}") from None
    return text


async def read_body(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body of *request*.

    :raises HTTPException: if the body is not a JSON object, or is too long.
    """
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > LONGEST:
            raise HTTPException(413, f"The body must have at most {LONGEST:,} bytes")
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"The body is not valid JSON: {error}") from None
    if not isinstance(fields, dict):
        raise HTTPException(400, 'The body must be a JSON object such as {"spider": "shop"}')
    return fields
