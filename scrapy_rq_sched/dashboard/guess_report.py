"""Tell of wrong passwords: a line a minute in the log, and an entry in the audit lists."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextlib import suppress

from ..connection import RedisError
from ..errors import FrontierError, counted
from ..inspect import View
from ..inspect.audit import Audit
from ..runtime.notice import Noted, Notice

logger = logging.getLogger(__name__)

#: Seconds for which one entry of an audit list is renewed, instead of followed by another: guessers must not
#: push the entries of actions out of the list.
ENTRY = 3600.0


class GuessReport:
    """Counts wrong guesses.

    :param views: returns the frontiers whose audit lists have an entry; it is called in a thread.
    :param executor: provides the thread.
    """

    def __init__(self, views: Callable[[], Iterable[View]], executor: Executor) -> None:
        self._views = views
        self._executor = executor
        self._notice = Notice()
        self._timer: asyncio.TimerHandle | None = None
        self._entries = _Entries()

    def wrong(self, address: str) -> None:
        """Note a wrong guess from *address*."""
        noted = self._notice.note(address)
        if noted is not None:
            self._tell(noted)
        else:
            # If no other guess follows, these have their line as well.
            if self._timer is not None:
                self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(self._notice.wait + 0.01, self._rest)

    def _rest(self) -> None:
        noted = self._notice.take()
        if noted is not None:
            self._tell(noted)

    def _tell(self, noted: Noted) -> None:
        logger.warning(
            "The dashboard has refused %s with a wrong password or token, from %s",
            counted(noted.number, "login"),
            noted.sources,
        )
        self._executor.submit(self._entries.write, self._views, noted)


class _Entries:
    """The entries of the audit lists: one for an hour of guesses."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since = 0.0
        self._count = 0
        self._written: dict[str, str] = {}

    def write(self, views: Callable[[], Iterable[View]], noted: Noted) -> None:
        """Write or renew the entry in each list. A list that cannot be written is left as it is."""
        with self._lock:
            now = time.monotonic()
            if not self._since or now - self._since > ENTRY:
                self._since, self._count, self._written = now, 0, {}
            self._count += noted.number
            result = f"refused: {counted(self._count, 'login')} with a wrong password or token"
            with suppress(RedisError, FrontierError):
                for view in views():
                    self._renew(view, noted.sources, result)

    def _renew(self, view: View, sources: str, result: str) -> None:
        with suppress(RedisError):
            key = view.keys.audit
            self._written[key] = Audit(view).note(
                sources, "login", {}, result, instead_of=self._written.get(key)
            )
