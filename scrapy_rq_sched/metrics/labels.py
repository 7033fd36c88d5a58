"""Values of labels: valid text of bounded length, without URLs."""

from __future__ import annotations

from urllib.parse import unquote

#: The label of everything without its own label.
OTHER = "other"
#: Characters of the longest label.
LONGEST = 200


def label(text: str) -> str:
    """Return *text* as a label's value. It is outside data: a name from Redis or from a terminal."""
    # A lone surrogate cannot be encoded.
    whole = text[:LONGEST].encode("utf-8", "replace").decode()
    return whole if len(text) <= LONGEST else f"{whole}…"


def is_url(text: str) -> bool:
    """Return whether *text* contains a URL: as labels, URLs would create a time series for each page."""
    return "://" in text or "://" in unquote(text)
