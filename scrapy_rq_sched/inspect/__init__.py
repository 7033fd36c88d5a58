"""Inspect and change a frontier from outside: the implementation of ``scrapy frontier``.

No crawl imports this package. Every method waits for Redis, and works in steps that are short for Redis.
"""

from ..events.event import Event
from .archive import ArchiveReader
from .doctor import examine
from .events import follow_events, read_events
from .export import Export
from .finding import Finding
from .operations.orders import Control
from .read_status import read_status
from .restore import Import, verify
from .status import Status, Worker
from .view import View, find_frontiers

__all__ = [
    "ArchiveReader",
    "Control",
    "Event",
    "Export",
    "Finding",
    "Import",
    "Status",
    "View",
    "Worker",
    "examine",
    "find_frontiers",
    "follow_events",
    "read_events",
    "read_status",
    "verify",
]
