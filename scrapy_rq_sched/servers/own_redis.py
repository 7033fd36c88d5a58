"""The project's own Redis: ``scrapy frontier crawl`` starts it if no setting names another."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from scrapy.utils.project import data_path

from ..errors import SettingError
from .shared import socket_path

#: The settings with the address of Redis.
_REDIS = ("REDIS_URL", "REDIS_HOST", "REDIS_PORT", "REDIS_DB", "REDIS_PARAMS")


def says_where_redis_is(settings: Any) -> bool:
    """Return whether *settings* contain the address of Redis; if not, the project gets a private Redis."""
    return any(settings.get(name) for name in _REDIS)


def url() -> str:
    """Return its ``REDIS_URL``."""
    return f"embedded://{_folder()}"


def use_if_there(settings: Any) -> None:
    """Set ``REDIS_URL`` to it, if *settings* name no Redis and a crawl has left data there."""
    if _is_meant(settings):
        # With the priority of the empty setting: a spider's own setting overrides it.
        settings.set("REDIS_URL", url(), settings.getpriority("REDIS_URL") or 0)


def hint(settings: Any) -> str:
    """Return a sentence for a worker without Redis; empty if the project has no Redis of its own."""
    if not _is_meant(settings):
        return ""
    return (
        "No setting names a Redis, but `scrapy frontier crawl` has made one for this project: to use it, set "
        f"REDIS_URL to {url()!r}"
    )


def _is_meant(settings: Any) -> bool:
    folder = _folder()
    return not says_where_redis_is(settings) and folder.is_dir() and any(folder.iterdir())


def _folder() -> Path:
    """Return the project's folder for it, or another one if that path is too long for a socket."""
    folder = Path(data_path("redis")).resolve()
    try:
        socket_path(str(folder))
    except SettingError:
        name = hashlib.sha1(os.fsencode(folder), usedforsecurity=False).hexdigest()[:16]
        return Path.home() / ".cache" / "scrapy-rq-sched" / name
    return folder
