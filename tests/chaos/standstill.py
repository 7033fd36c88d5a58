"""How long the machine kept a worker from a processor: a scenario's clocks cannot know of it, and break."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

#: Seconds between two looks.
INTERVAL = 0.05
#: Stands for this process, where a worker's number would stand.
ITSELF = 0


def waited(process: int) -> float | None:
    """Return the seconds for which a process was ready to run and had no processor, since it began.

    None if the process is gone, or the system does not count that.
    """
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return None


def longest(waits: list[tuple[float, float]], within: float) -> float:
    """Return the most that a growing count of seconds has grown by within a time.

    :param waits: moments, and the count at each, in the order of time.
    :param within: seconds.
    """
    moments = [moment for moment, _ in waits]
    return max(
        (count - waits[bisect_left(moments, moment - within)][1] for moment, count in waits), default=0.0
    )


class Watch:
    """Measures how long *processes* waited for a processor, and how late its own timer was woken.

    The timer says it also where the system does not count the time that a process waits.

    :param processes: returns those that run now; it is called by a thread.
    """

    def __init__(self, processes: Callable[[], Iterable[int]]) -> None:
        self._processes = processes
        self._waits: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def longest(self, within: float) -> float:
        """Return the most seconds that one process waited within so many seconds."""
        return max((longest(waits[:], within) for waits in list(self._waits.values())), default=0.0)

    def _look(self) -> None:
        late, due = 0.0, time.monotonic()
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            now = time.monotonic()
            late += now - due
            self._waits[ITSELF].append((now, late))
            for process in self._processes():
                count = waited(process)
                if count is not None:
                    self._waits[process].append((now, count))
            due = time.monotonic() + INTERVAL
