"""Words that several messages share."""

from __future__ import annotations

import shlex
from functools import partial

from .. import errors

#: Returns a count and its noun for people at a terminal or a page: ``1 worker`` or ``1,200 workers``.
counted = partial(errors.counted, form=",")


def crawl_command(spider: str) -> str:
    """Return the command that starts a worker of *spider*, quoted for a shell."""
    return f"scrapy crawl {shlex.quote(spider)}"
