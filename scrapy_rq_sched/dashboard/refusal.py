"""The response to a request that is refused: its error is one printable line."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from ..errors import one_line
from ..inspect import as_json


def refusal(text: object, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response with the error *text*, which may quote the request."""
    return Response(as_json.dump({"error": one_line(text)}), status, headers, "application/json")
