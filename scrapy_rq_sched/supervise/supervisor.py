"""Run workers on one machine until the crawl is finished, and restart workers that die."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..frontier.close_limits import MAX_PAGES
from ..runtime.run import Run, clock
from . import report
from .liveness import Limits, Liveness
from .log_tail import is_error, without_time
from .worker_process import WorkerProcess

#: Number of deaths in a row after which a worker is not restarted. A run of at least STABLE seconds ends the
#: row, unless the worker hung, and not at a request: it might hang like that for ever. A request that kills
#: its workers is set aside sooner (FRONTIER_MAX_DELIVERIES).
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
#: The reasons of a worker that has found the crawl finished, or as large as FRONTIER_MAX_PAGES allows.
ENDED = (FINISHED, MAX_PAGES)
#: The reason if the spider's start() has raised an exception.
START_ERROR = "start_error"
#: The reason if an item could not be written to a worker's own file.
NOT_WRITTEN = "items_not_written"
#: The reason after `scrapy frontier stop`.
STOPPED = "stopped"
#: The reason if there is no place (FRONTIER_MAX_WORKERS_POLICY = "exit").
FULL = "max_workers"
#: Parts in which two warnings of one kind differ; and maximum number of kinds that are remembered.
_DIFFERS, MOST_KINDS = re.compile(r"<[^>]*>|\(referer: .*\)|\b\w+://\S+|\d+"), 1000


@dataclass
class Member:
    """A worker: its process, and the number of earlier ones that it replaces.

    :ivar hung: how it was killed because it hung; empty if it was not.
    :ivar worked: the number of seconds until it hung at a request for which it worked, and that end a row of
        deaths.
    :ivar starts_at: when it will be restarted; None: it runs, or is done.
    :ivar name: the name in the frontier of its last process that has joined; empty if none has.
    """

    number: int
    process: WorkerProcess
    started: float
    liveness: Liveness
    hung: str = ""
    worked: float = 0.0
    starts: int = 1
    deaths: int = 0
    starts_at: float | None = None
    is_done: bool = False
    name: str = ""


class Supervisor:
    """Starts and watches workers; the caller must call :meth:`step` repeatedly.

    The first warning or error of each kind in the workers' logs is passed on to *say*.

    :param count: the number of workers.
    :param arguments: returns the arguments of ``scrapy`` for the process of a name.
    :param folder: the folder for logs and reports.
    :param say: called with a line for each event.
    :param limits: the limits after which a worker that stands still is killed.
    :ivar reports: the statistics of each process that has reported.
    :ivar reasons: the reasons for which workers have closed their spiders, in order.
    :ivar set_aside: the number of workers that will not be restarted after a failure.
    :ivar errors: the number of errors in the workers' logs.
    """

    def __init__(
        self,
        count: int,
        arguments: Callable[[str], Sequence[str]],
        folder: Path,
        say: Callable[[str], None],
        limits: Limits | None = None,
    ) -> None:
        self._arguments = arguments
        self._folder = folder
        self._say = say
        self._limits = limits or Limits()
        self._run = Run(secrets.token_hex(8), os.getpid(), clock())
        self.reports: list[report.Stats] = []
        self.reasons: list[str] = []
        self.set_aside = self.errors = 0
        self.requests_to_end = 0
        self._kill_at: float | None = None
        self._must_end_since: float | None = None
        # Whether a worker was lost after the last one that has closed as finished.
        self._lacks_worker = False
        self._logged_kinds: set[str] = set()
        self.members = [self._member(n, time.monotonic()) for n in range(1, count + 1)]

    def _member(self, number: int, now: float) -> Member:
        return Member(number, self._start(number, 1), now, Liveness(self._limits, now))

    def _start(self, number: int, starts: int, replaces: str = "") -> WorkerProcess:
        name = f"worker-{number}" if starts == 1 else f"worker-{number}.{starts}"
        return WorkerProcess(name, self._arguments(name), self._folder, self._run, replaces)

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
    def is_finished(self) -> bool:
        """Whether a worker has found the crawl finished, or as large as ``FRONTIER_MAX_PAGES`` allows."""
        return any(reason in ENDED for reason in self.reasons)

    @property
    def has_succeeded(self) -> bool:
        """Whether the crawl has ended by itself."""
        if self.is_finished:
            return not self._lacks_worker
        # Workers that were told one by one to shut down have not ended by themselves, nor have those without
        # a place. But if other machines have all places, so that no worker was needed here, all is well.
        # And if start() failed in each of them, the crawl lacks its beginning, though nothing is left to do.
        failures = (SHUTDOWN, REFUSED, TOO_LARGE, FULL, START_ERROR, NOT_WRITTEN)
        was_needless = self.reasons == [FULL] * self.processes
        return not self.set_aside and (was_needless or any(reason not in failures for reason in self.reasons))

    def step(self) -> None:
        """Read the workers' logs, notice workers that have ended, and restart them when they are due."""
        now = time.monotonic()
        if self._must_end_since is None and (self.requests_to_end or self._is_ending or self.is_finished):
            self._must_end_since = now
        for member in self.members:
            if member.is_done:
                continue
            if member.starts_at is None:
                has_ended = member.process.has_ended
                self._pass_on(member)
                if has_ended:
                    self._ended(member, now)
                else:
                    self._kill_if_hung(member, now)
            if member.starts_at is not None and (self.requests_to_end or self._is_ending):
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
    def _is_ending(self) -> bool:
        """Whether a worker has closed for a reason after which no worker should be restarted.

        A finish is no such reason: a handler of ``spider_idle`` or a seed may have given another worker more
        requests. If not, the restarted worker finds the crawl finished, and closes.
        """
        return any(reason == STOPPED or reason.startswith("closespider_") for reason in self.reasons)

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
        member.started, member.hung, member.liveness = now, "", Liveness(self._limits, now)
        try:
            member.process = self._start(member.number, member.starts, member.name)
        except OSError as error:
            self._died(member, now, f"{error}")
        else:
            member.starts_at = None

    def _kill_if_hung(self, member: Member, now: float) -> None:
        process, liveness = member.process, member.liveness
        liveness.step(process.heartbeats(), now)
        if member.hung or not liveness.is_suspect:
            return
        # A thread that never ends may hold up a process whose crawl has ended.
        is_closing = liveness.is_closing or process.report().reason
        must_end = self._must_end_since is not None
        # A worker that was told to close may write its last items, before it could say that it closes.
        may_hang = liveness.is_crawling and not (is_closing or self.requests_to_end)
        found = liveness.hung_at(process.report().worker) if may_hang else None
        silence = f"killed after {liveness.still:.0f} s without a heartbeat"
        member.worked = 0.0
        if found is not None and found.has_begun:
            member.hung = f"{silence}, at {found.requests}"
            # Its deaths are bounded: the request will be set aside.
            member.worked = now - liveness.still - member.started
        elif found is not None:
            member.hung = f"{silence}; it had leased {found.requests}"
        elif not liveness.is_silent_too_long(self._must_end_since or 0.0):
            return
        elif is_closing or must_end:
            member.hung = f"killed because it did not close, and sent no heartbeat for {liveness.still:.0f} s"
        elif not liveness.is_crawling:
            member.hung = f"{silence}, before it had begun to crawl"
        elif not liveness.is_known:
            member.hung = f"{silence}, and Redis does not answer which request it holds"
        else:
            member.hung = f"{silence}, although it holds no request"
        process.kill()
        # Of a worker that will be restarted, the line about its death says this.
        if self.requests_to_end or (must_end and not member.worked):
            self._say(f"Worker {member.number} was {member.hung}")

    def _pass_on(self, member: Member) -> None:
        for line in member.process.log.grave():
            self.errors += is_error(line)
            text = without_time(line)
            kind = _DIFFERS.sub("", text)
            if kind not in self._logged_kinds and len(self._logged_kinds) < MOST_KINDS:
                self._logged_kinds.add(kind)
                self._say(f"worker {member.number}: {text}")

    def _ended(self, member: Member, now: float) -> None:
        has_begun, reason, stats, name, was_open = member.process.report()
        # Not if it has crawled before: a later start may fail while Redis is away.
        is_refused_at_first = reason == REFUSED and not (was_open or member.name)
        member.name = name or member.name
        if reason:
            self.reports.append(stats)
            self.reasons.append(reason)
        if reason in ENDED:
            self._lacks_worker = False
        # A worker that was refused at first is not needed, but a restarted one is missing.
        has_no_place = reason == FULL and member.starts > 1
        # A worker that hangs at a request may have more of them, also after another one has found the finish.
        is_given_up = member.hung and not member.worked and self._must_end_since is not None
        has_closed = reason and reason not in (TOO_LARGE, REFUSED) and not has_no_place
        was_ended = self._is_ending and member.process.is_asked_to_end and not reason
        if self.requests_to_end or is_given_up or has_closed or was_ended:
            member.is_done = True
        elif not reason and member.process.exit_code == 0:
            # A restart could crawl a finished crawl again.
            member.is_done = True
            self._say(f"Worker {member.number} has ended without a reason. It will not be restarted")
        elif reason == TOO_LARGE and now - member.started >= STABLE:
            self._say(f"Worker {member.number} has reached the memory limit. A new worker replaces it")
            member.starts_at = now
            self._lacks_worker = True
        elif is_refused_at_first:
            # The line of its log with the reason was passed on.
            member.is_done = True
            self.set_aside += 1
            self._say(f"Worker {member.number} cannot start. It will not be restarted")
        elif reason == REFUSED:
            when = "in mid-crawl" if was_open else "when it was restarted"
            self._died(member, now, "refused", f"was refused by the frontier {when}, and has closed")
        elif not has_begun and member.process.exit_code > 0 and member.starts == 1:
            self._aside(member, "cannot start")
        elif has_no_place:
            self._died(member, now, "another worker has taken its place: FRONTIER_MAX_WORKERS")
        elif reason == TOO_LARGE:
            self._died(member, now, f"memory limit reached after {now - member.started:.0f} s")
        else:
            self._died(member, now, member.hung or member.process.how_it_ended())

    def _died(self, member: Member, now: float, how: str, line: str = "") -> None:
        if self._is_ending:
            member.is_done = True
            self._say(f"Worker {member.number} has died ({how}). It will not be restarted: the crawl is over")
            return
        self._lacks_worker = True
        worked = member.worked if member.hung else now - member.started
        member.deaths = 1 if worked >= STABLE else member.deaths + 1
        if member.deaths >= MOST_DEATHS:
            self._aside(member, f"has died {member.deaths} times in a row (last: {how})")
            return
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (member.deaths - 1))
        member.starts_at = now + pause
        self._say(
            f"Worker {member.number} {line or f'has died ({how})'}. It will be restarted in {pause:g} s"
        )

    def _aside(self, member: Member, why: str) -> None:
        member.is_done = True
        self.set_aside += 1
        log = member.process.log
        last = "".join(f"\n    {line}" for line in log.last)
        self._say(
            f"Worker {member.number} {why}. It will not be restarted. The end of its log, {log.path}:{last}"
        )
