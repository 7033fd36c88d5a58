"""The Redis of a project's own: ``scrapy frontier crawl`` starts it where no setting says which Redis."""

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
    """Have *settings* name it, if they name none, and a crawl has left its data there."""
    folder = _folder()
    if not says_where_redis_is(settings) and folder.is_dir() and any(folder.iterdir()):
        # In the place of what is empty; a spider that says otherwise comes before it.
        settings.set("REDIS_URL", url(), settings.getpriority("REDIS_URL") or 0)


def _folder() -> Path:
    """Return the project's folder for it, or another one if its path is too long for a socket in it."""
    folder = Path(data_path("redis")).resolve()
    try:
        socket_path(str(folder))
    except SettingError:
        name = hashlib.sha1(os.fsencode(folder), usedforsecurity=False).hexdigest()[:16]
        return Path.home() / ".cache" / "scrapy-rq-sched" / name
    return folder
