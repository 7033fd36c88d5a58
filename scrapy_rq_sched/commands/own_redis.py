"""The project's own Redis: ``scrapy frontier crawl`` starts it if no setting names another."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from scrapy.utils.project import data_path

from ..errors import SettingError
from ..servers.shared import socket_path
from ..supervise.arguments import says_where_redis_is


def url() -> str:
    """Return its ``REDIS_URL``."""
    return f"embedded://{_folder()}"


def use_if_there(settings: Any) -> None:
    """Set ``REDIS_URL`` to it, if *settings* name no Redis and a crawl has left data there."""
    folder = _folder()
    if not says_where_redis_is(settings) and folder.is_dir() and any(folder.iterdir()):
        # With the priority of the empty setting: a spider's own setting overrides it.
        settings.set("REDIS_URL", url(), settings.getpriority("REDIS_URL") or 0)


def _folder() -> Path:
    """Return the project's folder for it, or another one if that path is too long for a socket."""
    folder = Path(data_path("redis")).resolve()
    try:
        socket_path(str(folder))
    except SettingError:
        name = hashlib.sha1(os.fsencode(folder), usedforsecurity=False).hexdigest()[:16]
        return Path.home() / ".cache" / "scrapy-rq-sched" / name
    return folder
