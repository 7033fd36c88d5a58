"""Tell all workers of a frontier to pause, drain, stop or resume. They obey at their next exchange."""

from __future__ import annotations

from typing import NamedTuple

from ...errors import InspectionError, bounded, frontier_command
from ...frontier.scripts import register
from ..read_status import read_status
from ..view import View
from ..wording import counted
from .operation import Mood, Operation


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

    def stop(self, worker: str | None = None) -> int:
        """Let all live workers close cleanly, or only *worker*. Return their number.

        Workers that join later are not affected.
        """
        return self._tell("stop", *([] if worker is None else [worker]))

    def _tell(self, *order: str) -> int:
        return int(self._script(self._keys, list(order)))


class _Order(NamedTuple):
    """An order: its participle, its effect on every worker, and what the live ones do besides."""

    done: str
    effect: str
    besides: str = ""


#: The orders to the workers, by the names of their commands.
ORDERS = {
    "pause": _Order("paused", "begin no page", ", but finish the pages that they have begun"),
    "resume": _Order("resumed", "begin pages again"),
    "drain": _Order("drained", "finish the requests in hand, and take no more"),
    "stop": _Order("stopped", "close, as after one Ctrl-C"),
}


def order(view: View, name: str) -> Operation:
    """Give all workers the order *name*, one of :data:`ORDERS`. The count is that of the live workers."""
    control, given, state = Control(view), ORDERS[name], view.meta.get("state")
    hint = resume = f"To resume it: {frontier_command('resume', view.spider)}"
    if name == "stop":
        hint = "To continue the crawl, start workers again"
        hint += f". It stays {state} for them, too. {resume}" if state else ""

    def text(alive: int, mood: Mood) -> str:
        if name == "stop" and not alive:
            return f"Spider {view.spider}: no worker is alive, so none {mood.will} close"
        workers = counted(alive, "worker") if alive else "no worker is alive now; workers that start later"
        besides = given.besides if alive else ""
        return f"Spider {view.spider} {mood.is_} {given.done}: {workers} {mood.will} {given.effect}{besides}"

    return Operation(
        text, lambda: read_status(view).alive, getattr(control, name), "" if name == "resume" else hint
    )


def stop_worker(view: View, name: str) -> Operation:
    """Let only the worker called *name* close. The count is 1.

    :raises InspectionError: if no live worker has this name.
    """
    control = Control(view)
    if not any(worker.name == name and worker.alive for worker in read_status(view).workers):
        raise _not_alive(view, name)

    def stop() -> int:
        if not control.stop(name):
            raise _not_alive(view, name)
        return 1

    return Operation(
        lambda _, mood: f"Worker {name} of spider {view.spider} {mood.will} close, as after one Ctrl-C",
        lambda: 1,
        stop,
    )


def _not_alive(view: View, name: str) -> InspectionError:
    return InspectionError(
        f"No worker of spider {view.spider!r} that is alive has the name {bounded(name)!r}. To list them: "
        + frontier_command("workers", view.spider)
    )
