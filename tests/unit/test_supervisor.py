"""The supervisor of ``scrapy frontier crawl``: its decisions, with processes and a clock of the test."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from scrapy_rq_sched.runtime.supervised import CLOSING, CRAWLING, OPENING
from scrapy_rq_sched.supervise import supervisor
from scrapy_rq_sched.supervise.liveness import Evidence, Limits
from scrapy_rq_sched.supervise.report import Report
from scrapy_rq_sched.supervise.supervisor import MOST_DEATHS, STABLE, Supervisor

LEASE, AT_CLOSE = 30.0, 270.0
#: Seconds between two steps of the supervisor.
STEP = 1.0
NOT_BEGUN = Report(False, "", {})
JOINED = Report(True, "", {}, "w-1")


class Log:
    path, last = Path("log"), ()

    def grave(self) -> list[str]:
        return []


class Process:
    """The process of a worker: the test sets its report, its exit code and its heartbeats."""

    started: list[Process]

    def __init__(self, name: str, arguments: Any, folder: Path, run: Any, replaces: str = "") -> None:
        self.name, self.replaces, self.log = name, replaces, Log()
        self.now_reports = NOT_BEGUN
        self.code: int | None = None
        self.beats = b""
        self.is_asked_to_end = False
        Process.started.append(self)

    @property
    def has_ended(self) -> bool:
        return self.code is not None

    @property
    def exit_code(self) -> int:
        return self.code or 0

    def heartbeats(self) -> bytes:
        return self.beats

    def report(self) -> Report:
        return self.now_reports

    def how_it_ended(self) -> str:
        return f"exit code {self.code}"

    def end(self) -> None:
        self.is_asked_to_end = True

    def kill(self) -> None:
        self.code = -9 if self.code is None else self.code

    hurry = kill


class Watched:
    """A supervisor of *count* workers, on a clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, count: int = 1) -> None:
        Process.started = []
        self.now = 1000.0
        self.said: list[str] = []
        self.evidence: Evidence | None = Evidence("", "1")
        monkeypatch.setattr(supervisor, "WorkerProcess", Process)
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        limits = Limits(LEASE, AT_CLOSE, self._find)
        self.supervisor = Supervisor(count, lambda name: [], folder, self.said.append, limits)

    def _find(self, worker: str) -> Future[Evidence | None]:
        found: Future[Evidence | None] = Future()
        found.set_result(self.evidence)
        return found

    @property
    def process(self) -> Process:
        """The process that was started last."""
        return Process.started[-1]

    def step(self, seconds: float = STEP) -> None:
        """Let time pass."""
        end = self.now + seconds
        while self.now < end:
            self.now += STEP
            self.supervisor.step()

    def work(self, seconds: float = STEP, phase: bytes = CRAWLING, report: Report = JOINED) -> None:
        """Let the last process send heartbeats for some time, and none afterwards."""
        process = self.process
        process.now_reports, process.beats = report, phase
        self.step(seconds)
        process.beats = b""

    def restart(self) -> None:
        """Wait until the next process is started."""
        number, patience = len(Process.started), self.now + 100
        while len(Process.started) == number:
            assert self.now < patience, f"no process was started: {self.said}"
            self.step()


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Watched]:
    return lambda count=1: Watched(monkeypatch, tmp_path, count)


@pytest.fixture
def watched(watch: Callable[..., Watched]) -> Watched:
    return watch()


# -- workers that hang ---------------------------------------------------------------------------------

SILENT = "killed after 270 s without a heartbeat"


@pytest.mark.parametrize(
    ("phase", "report", "words"),
    [
        (b"", NOT_BEGUN, f"{SILENT}, before it had begun to crawl"),
        (OPENING, JOINED, f"{SILENT}, before it had begun to crawl"),
        (CRAWLING, JOINED, f"{SILENT}, although it holds no request"),
        (CLOSING, JOINED, "killed because it did not close, and sent no heartbeat for 270 s"),
    ],
    ids=["importing", "opening", "crawling", "closing"],
)
def test_a_worker_that_hangs_without_a_request_is_killed_in_any_phase(
    watched: Watched, phase: bytes, report: Report, words: str
) -> None:
    watched.work(phase=phase, report=report)
    watched.step(AT_CLOSE - STEP)
    assert not watched.said
    watched.step(2 * STEP)
    assert watched.said == [f"Worker 1 has died ({words}). It will be restarted in 1 s"]


def test_a_worker_that_hangs_while_redis_does_not_answer_is_killed_in_the_end(watched: Watched) -> None:
    watched.evidence = None
    watched.work()
    watched.step(AT_CLOSE + STEP)
    words = f"{SILENT}, and Redis does not answer which request it holds"
    assert watched.said == [f"Worker 1 has died ({words}). It will be restarted in 1 s"]


def test_a_worker_that_waits_long_and_then_hangs_without_a_request_is_given_up(watched: Watched) -> None:
    for number in range(MOST_DEATHS):
        watched.work(2 * STABLE)
        watched.work(phase=CLOSING)
        watched.step(AT_CLOSE + STEP)
        if number < MOST_DEATHS - 1:
            watched.restart()
    assert watched.supervisor.is_over, watched.said
    assert watched.supervisor.set_aside == 1
    assert not watched.supervisor.has_succeeded
    assert f"has died {MOST_DEATHS} times in a row" in watched.said[-1]


def test_the_time_without_a_heartbeat_does_not_end_a_row_of_deaths(watched: Watched) -> None:
    watched.evidence = Evidence("http://a.test/7", "1")
    for _ in range(3):
        watched.work(STABLE / 2)
        watched.step(3 * LEASE + STEP)
        watched.restart()
    assert watched.said[-1].endswith("It will be restarted in 4 s")


def test_a_worker_that_hangs_at_a_request_after_a_long_crawl_begins_a_row_of_deaths(watched: Watched) -> None:
    watched.evidence = Evidence("http://a.test/7", "1")
    for _ in range(3):
        watched.work(2 * STABLE)
        watched.step(3 * LEASE + STEP)
        watched.restart()
    line = "killed after 90 s without a heartbeat, at http://a.test/7"
    assert watched.said == [f"Worker 1 has died ({line}). It will be restarted in 1 s"] * 3


def test_a_request_that_the_worker_may_not_have_begun_is_not_called_its_place(watched: Watched) -> None:
    watched.evidence = Evidence("http://a.test/7", "1", has_begun=False)
    watched.work()
    watched.step(3 * LEASE + STEP)
    line = "killed after 90 s without a heartbeat; it had leased http://a.test/7"
    assert watched.said == [f"Worker 1 has died ({line}). It will be restarted in 1 s"]


# -- workers that are refused ----------------------------------------------------------------------------

REFUSED_AT_FIRST = Report(True, "frontier_error", {})
REFUSED_LATER = Report(True, "frontier_error", {}, "w-1", was_open=True)


def test_a_worker_that_is_refused_at_first_is_not_restarted(watched: Watched) -> None:
    watched.process.now_reports, watched.process.code = REFUSED_AT_FIRST, 1
    watched.step()
    assert watched.said == ["Worker 1 cannot start. It will not be restarted"]
    assert watched.supervisor.set_aside == 1


def test_a_worker_with_a_pipeline_that_cannot_start_is_not_restarted(watched: Watched) -> None:
    # The scheduler has joined before the pipelines are opened.
    watched.process.now_reports, watched.process.code = REFUSED_LATER._replace(was_open=False), 1
    watched.step()
    assert watched.said == ["Worker 1 cannot start. It will not be restarted"]


def test_a_worker_that_is_refused_in_mid_crawl_is_restarted(watched: Watched) -> None:
    watched.work(2 * STABLE)
    watched.process.now_reports, watched.process.code = REFUSED_LATER, 1
    watched.step()
    line = "was refused by the frontier in mid-crawl, and has closed. It will be restarted in 1 s"
    assert watched.said == [f"Worker 1 {line}"]
    watched.restart()


def test_a_worker_that_is_refused_again_and_again_after_its_crawl_is_given_up(watched: Watched) -> None:
    watched.work()
    watched.process.now_reports, watched.process.code = REFUSED_LATER, 1
    for _ in range(MOST_DEATHS - 1):
        watched.restart()
        watched.process.now_reports, watched.process.code = REFUSED_AT_FIRST, 1
    watched.step()
    assert "was refused by the frontier when it was restarted" in watched.said[-2]
    assert f"has died {MOST_DEATHS} times in a row (last: refused)" in watched.said[-1]
    assert watched.supervisor.is_over


def test_a_restart_replaces_the_last_worker_that_has_joined(watched: Watched) -> None:
    watched.work()
    for _ in range(2):
        # The second dies before it has joined.
        watched.process.code = 1
        watched.restart()
        watched.process.now_reports = Report(True, "", {})
    assert [process.replaces for process in Process.started] == ["", "w-1", "w-1"]


# -- the end of a crawl ----------------------------------------------------------------------------------


def test_a_worker_that_was_told_to_stop_before_its_crawl_began_has_not_died(
    watch: Callable[..., Watched],
) -> None:
    watched = watch(2)
    first, second = Process.started
    first.now_reports, first.code = Report(True, "stopped", {}, "w-1", was_open=True), 0
    watched.step()
    assert second.is_asked_to_end
    second.code = -15
    watched.step()
    assert watched.supervisor.is_over
    assert watched.said == []


FINISHED = Report(True, "finished", {}, "w-1", was_open=True)
TOO_LARGE = Report(True, "memusage_exceeded", {}, "w-2", was_open=True)


@pytest.fixture
def one_has_finished(watch: Callable[..., Watched]) -> Watched:
    """Two workers, of which the first has found the crawl finished; the second crawls."""
    watched = watch(2)
    first, second = Process.started
    second.now_reports = JOINED
    first.now_reports, first.code = FINISHED, 0
    watched.work(2 * STABLE)
    return watched


@pytest.mark.parametrize(("report", "code"), [(JOINED, -9), (TOO_LARGE, 0)], ids=["killed", "too large"])
def test_a_worker_that_still_crawls_after_the_finish_is_replaced(
    one_has_finished: Watched, report: Report, code: int
) -> None:
    watched = one_has_finished
    # A handler of spider_idle, or a seed, has given it more requests.
    watched.process.now_reports, watched.process.code = report, code
    watched.restart()
    assert not watched.supervisor.has_succeeded
    watched.process.now_reports, watched.process.code = FINISHED, 0
    watched.step()
    assert watched.supervisor.is_over
    assert watched.supervisor.has_succeeded


def test_a_crawl_that_gives_up_a_worker_after_the_finish_of_another_has_not_succeeded(
    one_has_finished: Watched,
) -> None:
    watched = one_has_finished
    for _ in range(MOST_DEATHS - 1):
        watched.process.code = 1
        watched.restart()
    watched.process.code = 1
    watched.step()
    assert watched.supervisor.is_over
    assert not watched.supervisor.has_succeeded


def test_a_worker_that_hangs_without_a_request_after_the_finish_is_given_up(
    one_has_finished: Watched,
) -> None:
    watched = one_has_finished
    watched.step(2 * AT_CLOSE)
    assert watched.supervisor.is_over
    assert watched.supervisor.has_succeeded


def test_a_worker_that_hangs_at_a_request_after_the_finish_is_replaced(one_has_finished: Watched) -> None:
    watched = one_has_finished
    watched.evidence = Evidence("http://a.test/7", "1")
    watched.restart()
    assert not watched.supervisor.has_succeeded
    assert sum("http://a.test/7" in line for line in watched.said) == 1


@pytest.mark.parametrize("reason", ["stopped", "closespider_pagecount"])
def test_a_worker_that_dies_after_an_order_to_stop_is_not_restarted(
    watch: Callable[..., Watched], reason: str
) -> None:
    watched = watch(2)
    first, second = Process.started
    first.now_reports, first.code = Report(True, reason, {}, "w-1", was_open=True), 0
    watched.step()
    second.now_reports, second.code = JOINED, 9
    watched.step()
    assert watched.supervisor.is_over
