"""Keep the list of the dashboard's actions on a frontier, each with its user and time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..connection import server_of
from ..frontier.entries import LIST, Entries, Piece
from .view import View

#: Number of entries that are kept.
MOST = 200
#: Characters of the arguments, and of the result, that are kept.
LONGEST = 1000


class Audit:
    """The audit list of *view*'s frontier. It stays when the crawl ends."""

    def __init__(self, view: View) -> None:
        self._key = view.keys.audit
        self._server = server_of(view.server, view.keys.requests)
        self._entries = Entries(view.server)

    def note(
        self,
        user: str,
        action: str,
        arguments: Mapping[str, Any],
        result: str,
        *,
        instead_of: str | None = None,
    ) -> str:
        """Add an entry, and return it: *user* has done *action*.

        :param arguments: those of the action; long ones are truncated.
        :param result: its result, in a sentence.
        :param instead_of: an earlier entry, which is removed.
        """
        seconds, microseconds = self._server.time()
        shortened = {name: _short(value) for name, value in arguments.items()}
        entry = {
            "time": seconds + microseconds / 1e6,
            "who": user[:LONGEST],
            "action": action,
            "arguments": shortened,
            "result": result[:LONGEST],
        }
        text = json.dumps(entry)
        if instead_of is not None:
            # First, so that a user without the right to do this does not fill the list.
            self._server.lrem(self._key, 1, instead_of)
        # Without a transaction: the user may lack the right to MULTI, and one entry too many does no harm.
        pipe = self._server.pipeline(transaction=False)
        pipe.lpush(self._key, text)
        pipe.ltrim(self._key, 0, MOST - 1)
        pipe.execute()
        return text

    def latest(self, count: int = MOST) -> list[dict[str, Any]]:
        """Return the latest *count* entries, the latest first; skip any that is not a JSON object.

        The dashboard keeps its entries short. Of a long one, which another program has written, the result
        is its beginning. Fewer are returned if they are many megabytes.
        """
        pieces = self._entries.read("list", self._key, 0, count, enough=LIST // 4)
        return [entry for entry in map(_parsed, pieces) if entry]


def _short(value: Any) -> Any:
    text = json.dumps(value)
    return value if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _parsed(entry: Piece) -> dict[str, Any]:
    if entry.is_cut and entry.data.startswith(b"{"):
        beginning = entry.data[:LONGEST].decode("utf-8", "replace")
        result = f"an entry of {entry.size:,} bytes, which begins with {beginning}"
        return {"time": 0, "who": "", "action": "unknown", "arguments": {}, "result": result}
    try:
        fields = json.loads(entry.data)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}
