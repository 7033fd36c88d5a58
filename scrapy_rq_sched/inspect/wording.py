"""Words that several messages share."""

from __future__ import annotations

import shlex


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return *count* and *noun* for people at a terminal or a page: ``1 worker`` or ``1,200 workers``.

    :param plural: of the noun; by default, with an s.
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def crawl_command(spider: str) -> str:
    """Return the command that starts a worker of *spider*, quoted for a shell."""
    return f"scrapy crawl {shlex.quote(spider)}"
