"""A process under a supervisor knows the run that it belongs to."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator

import pytest

from scrapy_rq_sched.frontier.client import LATE_WORKER_GRACE
from scrapy_rq_sched.frontier.scripts import part
from scrapy_rq_sched.runtime import identity, run
from scrapy_rq_sched.runtime.run import Run
from scrapy_rq_sched.supervise.supervisor import LONGEST_PAUSE

HOUR = 3600.0


@pytest.fixture(autouse=True)
def _no_run_is_left() -> Iterator[None]:
    yield
    run.over()


def begin(monkeypatch: pytest.MonkeyPatch, started: float) -> Run:
    """Have this process be a worker of a supervisor."""
    described = Run("r", 7, started, "/a folder/worker 1.json", replaces="dead")
    for name, value in described.environment.items():
        monkeypatch.setenv(name, value)
    return described


def test_a_process_reads_the_run_from_its_environment_once(monkeypatch: pytest.MonkeyPatch) -> None:
    described = begin(monkeypatch, 1.5)
    assert run.current() == described
    assert run.VARIABLE not in os.environ
    assert run.current() == described


def test_a_later_crawl_of_the_process_has_no_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_last_close", None)
    begin(monkeypatch, run.clock() - HOUR)
    assert identity.age() > HOUR - 1
    identity.closed()
    assert run.current() is None
    assert identity.age() < 1


def test_a_supervisor_of_a_later_version_may_describe_more(monkeypatch: pytest.MonkeyPatch) -> None:
    described = begin(monkeypatch, 1.5)
    text = json.loads(os.environ[run.VARIABLE])
    monkeypatch.setenv(run.VARIABLE, json.dumps({**text, "new": 1}))
    assert run.current() == described


def test_a_process_that_a_worker_has_started_has_no_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    os.close(writer)
    with open(os.devnull) as another:
        for descriptor in (writer, another.fileno()):
            for name, value in Run("r", 7, 1.5, heartbeats=descriptor).environment.items():
                monkeypatch.setenv(name, value)
            assert run.current() is None


def test_a_process_knows_its_run_after_its_supervisor_was_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader, writer = os.pipe()
    described = Run("r", 7, 1.5, heartbeats=writer)
    for name, value in described.environment.items():
        monkeypatch.setenv(name, value)
    assert run.current() == described
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("text", ["7 /a/report.json", "[]", "{}", '{"id": 1}', "null"])
def test_a_description_of_another_program_is_ignored(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(run.VARIABLE, text)
    assert run.current() is None


def test_a_worker_is_as_old_as_its_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    begin(monkeypatch, run.clock() - HOUR)
    assert HOUR <= identity.age() < HOUR + 1


def test_a_worker_without_a_supervisor_is_a_minute_old_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_last_close", None)
    assert run.current() is None
    assert identity.age() <= identity.LONGEST_START


def test_a_finish_is_known_for_longer_than_any_restart_takes() -> None:
    longest = LONGEST_PAUSE + identity.LONGEST_START
    (grace,) = re.findall(r"\nlocal GRACE = (\d+)\n", part("fleet/lost").decode())
    assert 3 * longest <= int(grace) / 1000 <= LATE_WORKER_GRACE
