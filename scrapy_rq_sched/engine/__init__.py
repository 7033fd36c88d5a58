"""The connection to Scrapy: everything that uses its private names."""

from .bridge import find_scheduler

__all__ = ["find_scheduler"]
