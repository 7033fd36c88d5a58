"""Follows every link of hosts that record when they are asked."""

from __future__ import annotations

from . import broad


class PoliteSpider(broad.BroadSpider):
    """Follows every link, from the page *first*."""

    name = "polite"
