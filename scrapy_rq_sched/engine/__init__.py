"""Everything that knows Scrapy's private names, and what the settings name."""

from .bridge import find_scheduler

__all__ = ["find_scheduler"]
