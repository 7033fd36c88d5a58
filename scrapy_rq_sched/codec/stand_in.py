"""Make a spider that stands in for one that cannot be loaded, with the callbacks that a request names."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from scrapy import Spider


def spider_for(data: Any, name: str) -> Spider:
    """Return a spider called *name* with the callbacks that *data*, a request as a dict, names."""
    fields = data if isinstance(data, dict) else {}
    named = (fields.get("callback"), fields.get("errback"))
    # A name with two underscores is not a callback, and could change how the class below works.
    return _make(name, frozenset(n for n in named if isinstance(n, str) and not n.startswith("__")))


@lru_cache(maxsize=100)
def _make(name: str, callbacks: frozenset[str]) -> Spider:
    methods = {callback: _method(callback) for callback in callbacks if not hasattr(Spider, callback)}
    spider: Spider = type("_Spider", (Spider,), methods)(name=name)
    return spider


def _method(name: str) -> Any:
    def callback(spider: Spider) -> None:
        """Stand in for a method that is never called."""

    callback.__name__ = name
    return callback
