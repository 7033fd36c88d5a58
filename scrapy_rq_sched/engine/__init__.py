"""The connection to Scrapy: its private names, and the components that the settings name."""

from .bridge import find_scheduler

__all__ = ["find_scheduler"]
