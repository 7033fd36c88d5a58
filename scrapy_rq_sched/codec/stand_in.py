"""A spider that stands for one that is not here: it has the callbacks that are asked of it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from scrapy import Spider


def spider_for(data: Any, name: str) -> Spider:
    """Return a spider called *name* that has the callbacks which *data*, a request as a dict, names."""
    fields = data if isinstance(data, dict) else {}
    named = (fields.get("callback"), fields.get("errback"))
    # With two underscores it is no callback, and may have a meaning for the class that would be made.
    return _make(name, frozenset(n for n in named if isinstance(n, str) and not n.startswith("__")))


@lru_cache(maxsize=100)
def _make(name: str, callbacks: frozenset[str]) -> Spider:
    methods = {callback: _method(callback) for callback in callbacks if not hasattr(Spider, callback)}
    spider: Spider = type("_Spider", (Spider,), methods)(name=name)
    return spider


def _method(name: str) -> Any:
    def callback(spider: Spider) -> None:
        """Stand for a method that nobody calls."""

    callback.__name__ = name
    return callback
