"""Pause, drain, stop or resume all workers of a frontier. They obey at their next exchange, within 2 s."""

from __future__ import annotations

from ..frontier.scripts import register
from .view import View


class Control:
    """Tells all workers of *view*'s frontier to pause, to drain, to stop, or to resume."""

    def __init__(self, view: View) -> None:
        view.require()
        self._keys = view.keys.all()
        self._script = register(view.server, "control")

    def pause(self) -> int:
        """Let workers begin no request until :meth:`resume`. Return the number of live workers.

        They finish the requests that they have begun, give the others back to the queue, and keep running.
        """
        return self._tell("paused")

    def drain(self) -> int:
        """Let workers finish the requests that they hold, and take no more. Return how many are alive."""
        return self._tell("draining")

    def resume(self) -> int:
        """End a pause or a drain. Return the number of live workers."""
        return self._tell("")

    def stop(self) -> int:
        """Let all live workers close cleanly. Return their number.

        Workers that join later are not affected.
        """
        return self._tell("stop")

    def _tell(self, what: str) -> int:
        return int(self._script(self._keys, [what]))
