"""What the spiders yield."""

from dataclasses import dataclass


@dataclass
class Page:
    """A page that was crawled."""

    url: str
    title: str
