"""What the spider ``grouped`` of ``tests/project/crawls/grouped.py`` has recorded."""

from __future__ import annotations

from .crawl import Fleet


def too_early(fleet: Fleet, since: float = 0.0) -> list[str]:
    """Return the groups whose follow-up came before a page of the group, of what happened since a time."""
    last = {event.what.split()[0]: event.time for event in fleet.events("group")}
    return [event.what for event in fleet.events("follow-up") if since < event.time < last[event.what]]
