"""Run workers on one machine until the crawl is finished, and restart workers that die."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import report
from .log_tail import is_error, without_time
from .worker_process import WorkerProcess

#: Number of deaths in a row after which a worker is not restarted. A run of at least STABLE seconds ends the
#: row. A request that kills its workers is set aside sooner (FRONTIER_MAX_DELIVERIES).
MOST_DEATHS, STABLE = 10, 60.0
#: Seconds before a worker is restarted after its first death; each further death doubles them, up to the
#: maximum.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
#: Seconds after the second request to end until workers are killed.
PATIENCE = 5.0
#: Seconds for which workers may finish their requests if the supervisor fails.
LAST_PATIENCE = 60.0
#: Reasons for closing a spider. A worker that is too large is replaced; a refused one is not restarted.
TOO_LARGE, REFUSED, FINISHED, SHUTDOWN = "memusage_exceeded", "frontier_error", "finished", "shutdown"
#: The reason after `scrapy frontier stop`.
STOPPED = "stopped"
#: Parts in which two warnings of one kind differ; and maximum number of kinds that are remembered.
_DIFFERS, MOST_KINDS = re.compile(r"<[^>]*>|\(referer: .*\)|\b\w+://\S+|\d+"), 1000


@dataclass
class Member:
    """A worker: its process, and the number of earlier ones that it replaces.

    :ivar starts_at: when it will be restarted; None: it runs, or is done.
    """

    number: int
    process: WorkerProcess
    started: float
    starts: int = 1
    deaths: int = 0
    starts_at: float | None = None
    is_done: bool = False


class Supervisor:
    """Starts and watches workers; the caller must call :meth:`step` repeatedly.

    The first warning or error of each kind in the workers' logs is passed on to *say*.

    :param count: the number of workers.
    :param arguments: returns the arguments of ``scrapy`` for the process of a name.
    :param folder: the folder for logs and reports.
    :param say: called with a line for each event.
    :ivar reports: the statistics of each process that has reported.
    :ivar reasons: the reasons for which workers have closed their spiders, in order.
    :ivar set_aside: the number of workers that will not be restarted after a failure.
    :ivar errors: the number of errors in the workers' logs.
    """

    def __init__(
        self, count: int, arguments: Callable[[str], Sequence[str]], folder: Path, say: Callable[[str], None]
    ) -> None:
        self._arguments = arguments
        self._folder = folder
        self._say = say
        self.reports: list[report.Stats] = []
        self.reasons: list[str] = []
        self.set_aside = self.errors = 0
        self.requests_to_end = 0
        self._kill_at: float | None = None
        self._said: set[str] = set()
        self.members = [Member(n, self._start(n, 1), time.monotonic()) for n in range(1, count + 1)]

    def _start(self, number: int, starts: int) -> WorkerProcess:
        name = f"worker-{number}" if starts == 1 else f"worker-{number}.{starts}"
        return WorkerProcess(name, self._arguments(name), self._folder)

    @property
    def running(self) -> int:
        """The number of running workers."""
        return sum(not (member.is_done or member.starts_at is not None) for member in self.members)

    @property
    def processes(self) -> int:
        """The number of processes that were started."""
        return sum(member.starts for member in self.members)

    @property
    def is_over(self) -> bool:
        """Whether no worker runs or will be restarted."""
        return all(member.is_done for member in self.members)

    @property
    def has_succeeded(self) -> bool:
        """Whether the crawl has ended by itself."""
        if FINISHED in self.reasons:
            return True
        # Workers that were told one by one to shut down have not ended by themselves.
        return not self.set_aside and any(
            reason not in (SHUTDOWN, REFUSED, TOO_LARGE) for reason in self.reasons
        )

    def step(self) -> None:
        """Read the workers' logs, notice workers that have ended, and restart them when they are due."""
        now = time.monotonic()
        for member in self.members:
            if member.is_done:
                continue
            if member.starts_at is None:
                has_ended = member.process.has_ended
                self._pass_on(member)
                if has_ended:
                    self._ended(member, now)
            if member.starts_at is not None and (self.requests_to_end or self._is_told_to_end):
                # The crawl is over, or is being stopped.
                member.starts_at, member.is_done = None, True
            if member.starts_at is not None and now >= member.starts_at:
                self._start_again(member, now)
        if STOPPED in self.reasons:
            # A worker that was restarted meanwhile may have joined after the stop.
            for member in self.members:
                member.process.end()
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            self.kill()

    @property
    def _is_told_to_end(self) -> bool:
        """Whether a worker has closed for a reason after which no worker should be restarted."""
        reasons = (FINISHED, STOPPED)
        return any(reason in reasons or reason.startswith("closespider_") for reason in self.reasons)

    def end(self) -> None:
        """Tell all workers to close cleanly; when called again, to end at once."""
        self.requests_to_end += 1
        hurries = self.requests_to_end > 1
        for member in self.members:
            if hurries:
                member.process.hurry()
            else:
                member.process.end()
        if hurries:
            self._kill_at = time.monotonic() + PATIENCE

    def finish(self) -> None:
        """Close all workers that still run, so that no worker outlives a supervisor that failed."""
        deadline = time.monotonic() + LAST_PATIENCE
        self._say = lambda text: None
        if not (self.is_over or self.requests_to_end):
            self.end()
        while not self.is_over and time.monotonic() < deadline:
            self.step()
            time.sleep(0.1)
        self.kill()

    def kill(self) -> None:
        """Kill all workers that still run."""
        for member in self.members:
            member.process.kill()

    def _start_again(self, member: Member, now: float) -> None:
        member.starts += 1
        member.started = now
        try:
            member.process = self._start(member.number, member.starts)
        except OSError as error:
            self._died(member, now, f"{error}")
        else:
            member.starts_at = None

    def _pass_on(self, member: Member) -> None:
        for line in member.process.log.grave():
            self.errors += is_error(line)
            text = without_time(line)
            kind = _DIFFERS.sub("", text)
            if kind not in self._said and len(self._said) < MOST_KINDS:
                self._said.add(kind)
                self._say(f"worker {member.number}: {text}")

    def _ended(self, member: Member, now: float) -> None:
        has_begun, reason, stats = member.process.report()
        if reason:
            self.reports.append(stats)
            self.reasons.append(reason)
        if self.requests_to_end or (reason and reason not in (TOO_LARGE, REFUSED)):
            member.is_done = True
        elif not reason and member.process.exit_code == 0:
            # A restart could crawl a finished crawl again.
            member.is_done = True
            self._say(f"Worker {member.number} has ended without a reason. It will not be restarted")
        elif reason == TOO_LARGE and now - member.started >= STABLE:
            self._say(f"Worker {member.number} has reached the memory limit. A new worker replaces it")
            member.starts_at = now
        elif reason == REFUSED and member.starts == 1:
            # The line of its log with the reason was passed on.
            member.is_done = True
            self.set_aside += 1
            self._say(f"Worker {member.number} cannot start. It will not be restarted")
        elif not has_begun and member.process.exit_code > 0 and member.starts == 1:
            self._aside(member, "cannot start")
        elif reason == TOO_LARGE:
            self._died(member, now, f"memory limit reached after {now - member.started:.0f} s")
        else:
            self._died(member, now, member.process.how_it_ended())

    def _died(self, member: Member, now: float, how: str) -> None:
        member.deaths = 1 if now - member.started >= STABLE else member.deaths + 1
        if member.deaths >= MOST_DEATHS:
            self._aside(member, f"has died {member.deaths} times in a row (last: {how})")
            return
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (member.deaths - 1))
        member.starts_at = now + pause
        self._say(f"Worker {member.number} has died ({how}). It will be restarted in {pause:g} s")

    def _aside(self, member: Member, why: str) -> None:
        member.is_done = True
        self.set_aside += 1
        log = member.process.log
        last = "".join(f"\n    {line}" for line in log.last)
        self._say(
            f"Worker {member.number} {why}. It will not be restarted. The end of its log, {log.path}:{last}"
        )
