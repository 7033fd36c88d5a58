"""What the spider of ``tests/project/crawls/needy.py`` has recorded."""

from __future__ import annotations

from .crawl import Fleet


def lacking(fleet: Fleet) -> list[str]:
    """Return the needs of each page that a worker has crawled without meeting them, and its offers."""
    found = []
    for event in fleet.events("needed"):
        needs, offers = (set(text.strip("-").split("+")) - {""} for text in event.what.split(" "))
        if needs - offers:
            found.append(event.what)
    return found
