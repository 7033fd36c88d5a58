"""What may be the value of a label: text of bounded length that can be sent, and no URL."""

from __future__ import annotations

from urllib.parse import unquote

#: The label of all that has none of its own.
OTHER = "other"
#: Characters of the longest.
LONGEST = 200


def label(text: str) -> str:
    """Return *text* as a label's value: names come from Redis, and from a terminal."""
    # Half a character cannot be sent.
    whole = text[:LONGEST].encode("utf-8", "replace").decode()
    return whole if len(text) <= LONGEST else f"{whole}…"


def is_url(text: str) -> bool:
    """Return whether *text* has a URL in it: as a label that would be a time series for each page."""
    return "://" in text or "://" in unquote(text)
