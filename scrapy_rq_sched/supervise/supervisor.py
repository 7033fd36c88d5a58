"""A fleet on one machine: so many workers, started again when they die, until the crawl is finished."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import report
from .log_tail import is_error, without_time
from .worker_process import WorkerProcess

#: How often a worker may die in a row, and for how many seconds it must run for a death not to be in a row. A
#: request that kills its workers is set aside sooner (FRONTIER_MAX_DELIVERIES).
MOST_DEATHS, STABLE = 10, 60.0
#: Seconds before a worker is started again after its first death; each further one doubles that, up to the
#: longest.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
#: Seconds after a second request to end after which workers are killed.
PATIENCE = 5.0
#: Seconds for which workers may finish what they are at when the supervisor cannot go on.
LAST_PATIENCE = 60.0
#: Reasons for which Scrapy closes a spider: a worker that grew too large is replaced, and one that cannot
#: begin is not started again.
TOO_LARGE, REFUSED, FINISHED, SHUTDOWN = "memusage_exceeded", "frontier_error", "finished", "shutdown"
#: Why they close when `scrapy frontier stop` has told all of them to.
STOPPED = "stopped"
#: What two warnings of one kind differ in, and how many kinds are remembered.
_DIFFERS, MOST_KINDS = re.compile(r"<[^>]*>|\(referer: .*\)|\b\w+://\S+|\d+"), 1000


@dataclass
class Member:
    """One of the workers: a process, and those that have had its place before.

    :ivar starts_at: when it is started again; None: it runs, or is done.
    """

    number: int
    process: WorkerProcess
    started: float
    starts: int = 1
    deaths: int = 0
    starts_at: float | None = None
    is_done: bool = False


class Supervisor:
    """Starts workers and watches them; :meth:`step` is called again and again.

    Of the warnings and errors in their logs, the first of each kind is passed on.

    :param count: how many workers.
    :param arguments: returns what follows ``scrapy`` for the process of a name.
    :param folder: where logs and reports go.
    :param say: told in a line what happens.
    :ivar reports: the statistics of each process that has reported.
    :ivar reasons: why workers have closed their spiders, the last one last.
    :ivar set_aside: how many workers are not started again; :ivar errors: how many errors their logs have.
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
        """How many workers run."""
        return sum(not (member.is_done or member.starts_at is not None) for member in self.members)

    @property
    def processes(self) -> int:
        """How many processes were started."""
        return sum(member.starts for member in self.members)

    @property
    def is_over(self) -> bool:
        """Whether no worker runs or will."""
        return all(member.is_done for member in self.members)

    @property
    def has_succeeded(self) -> bool:
        """Whether the crawl came to an end by itself."""
        if FINISHED in self.reasons:
            return True
        # Whoever has told each worker by itself to end has interrupted the crawl.
        return not self.set_aside and any(
            reason not in (SHUTDOWN, REFUSED, TOO_LARGE) for reason in self.reasons
        )

    def step(self) -> None:
        """See what the workers say and which have ended; start again those that are due."""
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
                # Nothing is left to do, or it is not to be done.
                member.starts_at, member.is_done = None, True
            if member.starts_at is not None and now >= member.starts_at:
                self._start_again(member, now)
        if STOPPED in self.reasons:
            # One that was started again since has joined after the fleet was told.
            for member in self.members:
                member.process.end()
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            self.kill()

    @property
    def _is_told_to_end(self) -> bool:
        """Whether workers have closed for a reason for which none should be started again."""
        reasons = (FINISHED, STOPPED)
        return any(reason in reasons or reason.startswith("closespider_") for reason in self.reasons)

    def end(self) -> None:
        """Have all workers finish cleanly; asked a second time, at once."""
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
        """Have all workers close, if any still runs: whatever has happened here, none stays behind."""
        deadline = time.monotonic() + LAST_PATIENCE
        self._say = lambda text: None
        if not (self.is_over or self.requests_to_end):
            self.end()
        while not self.is_over and time.monotonic() < deadline:
            self.step()
            time.sleep(0.1)
        self.kill()

    def kill(self) -> None:
        """Kill whatever still runs."""
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
            # What was not to be crawled again would be.
            member.is_done = True
            self._say(f"Worker {member.number} has ended without saying why, and is not started again")
        elif reason == TOO_LARGE and now - member.started >= STABLE:
            self._say(f"Worker {member.number} has grown too large, and is replaced")
            member.starts_at = now
        elif reason == REFUSED and member.starts == 1:
            # Why, its log says in one line, which was passed on.
            member.is_done = True
            self.set_aside += 1
            self._say(f"Worker {member.number} cannot start, and is not started again")
        elif not has_begun and member.process.exit_code > 0 and member.starts == 1:
            self._aside(member, "cannot start")
        elif reason == TOO_LARGE:
            self._died(member, now, f"too large after {now - member.started:.0f} s")
        else:
            self._died(member, now, member.process.how_it_ended())

    def _died(self, member: Member, now: float, how: str) -> None:
        member.deaths = 1 if now - member.started >= STABLE else member.deaths + 1
        if member.deaths >= MOST_DEATHS:
            self._aside(member, f"has died {member.deaths} times in a row ({how})")
            return
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (member.deaths - 1))
        member.starts_at = now + pause
        self._say(f"Worker {member.number} has died ({how}). It is started again in {pause:g} s")

    def _aside(self, member: Member, why: str) -> None:
        member.is_done = True
        self.set_aside += 1
        log = member.process.log
        last = "".join(f"\n    {line}" for line in log.last)
        self._say(
            f"Worker {member.number} {why}. It is not started again. Its log, {log.path}, ends with:{last}"
        )
