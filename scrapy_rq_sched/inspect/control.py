"""What all workers of a frontier are told: they learn it by their next exchange, within two seconds."""

from __future__ import annotations

from ..frontier.scripts import register
from .view import View


class Control:
    """Tells all workers of *view*'s frontier to pause, to drain, to stop, or to go on."""

    def __init__(self, view: View) -> None:
        view.require()
        self._keys = view.keys.all()
        self._script = register(view.server, "control")

    def pause(self) -> int:
        """Have workers begin nothing, until they are told to go on. Returns how many are alive.

        What they are at they finish, what they have not begun goes back to the queue, and they stay.
        """
        return self._tell("paused")

    def drain(self) -> int:
        """Have workers do what they have in hand, and take no more. Returns how many are alive."""
        return self._tell("draining")

    def resume(self) -> int:
        """Have workers go on. Returns how many are alive."""
        return self._tell("")

    def stop(self) -> int:
        """Have the workers that are alive now close, each cleanly. Returns how many there are.

        Those that join later are not meant.
        """
        return self._tell("stop")

    def _tell(self, what: str) -> int:
        return int(self._script(self._keys, [what]))
