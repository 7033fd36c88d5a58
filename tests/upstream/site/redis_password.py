"""A plugin for pytest: clients log in to a Redis whose password the tests do not know."""

import os
from typing import Any

import redis

_connect = redis.Connection.__init__


def _with_password(self: redis.Connection, *arguments: Any, **options: Any) -> None:
    options["password"] = options.get("password") or os.environ["REDIS_PASSWORD"]
    _connect(self, *arguments, **options)


redis.Connection.__init__ = _with_password  # type: ignore[method-assign]
