"""The answers of the API as JSON, with a bounded size, made outside the event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.responses import Response

from ..errors import one_line
from ..inspect import as_json

#: Characters of a text, and of a whole answer, approximately.
LONGEST, LARGEST = 20_000, 1_000_000


#: Threads that make answers. Each of them takes its turns from the event loop, which answers everything else.
_THREADS = ThreadPoolExecutor(2, "frontier-answers")


async def answer_of(make: Callable[[], dict[str, Any]]) -> Response:
    """Return a response with the fields that *make* returns. A thread calls it, and makes the JSON."""
    loop = asyncio.get_running_loop()
    text = await loop.run_in_executor(_THREADS, lambda: dump(make()))
    return Response(text, media_type="application/json")


def dump(fields: dict[str, Any]) -> str:
    """Return *fields* as JSON. Long texts are cut, and lists end when the answer is full.

    If a list has further entries for this reason, there is a field ``more``, which is true.
    """
    left, more, parts = LARGEST, False, []
    for name, value in fields.items():
        if not isinstance(value, list):
            parts.append((name, as_json.dump(value, LONGEST)))
            continue
        texts = []
        for item in value:
            text = as_json.dump(item, LONGEST)
            left -= len(text)
            if left < 0:
                more = True
                break
            texts.append(text)
        parts.append((name, f"[{', '.join(texts)}]"))
    if more:
        parts.append(("more", "true"))
    return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in parts) + "}"


def refusal(text: object, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response with the error *text*, which may quote the request."""
    return Response(as_json.dump({"error": one_line(text)}), status, headers, "application/json")
