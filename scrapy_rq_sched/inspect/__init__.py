"""The frontier as one looks at it, and mends it, from outside: what is behind ``scrapy frontier``.

Nothing here is on the path of a crawl, and no crawl imports it. Every method waits for Redis, and costs it a
step of bounded length at a time.
"""

from .archive import Reader
from .control import Control
from .export import Export
from .restore import Import, verify
from .status import Status, Worker, read_status
from .view import View, find_frontiers

__all__ = [
    "Control",
    "Export",
    "Import",
    "Reader",
    "Status",
    "View",
    "Worker",
    "find_frontiers",
    "read_status",
    "verify",
]
