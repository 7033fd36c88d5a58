"""What the log says of slots that their sites have blocked."""

from __future__ import annotations

import logging
from typing import Any
from unittest.mock import Mock

import pytest

from scrapy_rq_sched.frontier.replies import BackedOff, Reply
from scrapy_rq_sched.worker.log.notices import Notices


@pytest.fixture
def notices() -> Notices:
    return Notices(Mock(), "s")


def logged(notices: Notices, caplog: pytest.LogCaptureFixture, seconds: float = 0, **reply: Any) -> list[str]:
    caplog.clear()
    blocked = {"a": BackedOff(seconds, 0.0, "429, and asks to wait", "")} if seconds else {}
    with caplog.at_level(logging.INFO):
        notices.backed_off(Reply("1", backed_off=blocked, **reply))
    return [record.getMessage() for record in caplog.records]


def test_a_block_that_several_answers_ask_for_is_logged_once(
    notices: Notices, caplog: pytest.LogCaptureFixture
) -> None:
    (line,) = logged(notices, caplog, 60)
    assert line.startswith("a has answered 429, and asks to wait for 60 s: no worker begins a request")
    assert logged(notices, caplog, 60.2) == []


def test_a_block_that_becomes_longer_is_logged_again(
    notices: Notices, caplog: pytest.LogCaptureFixture
) -> None:
    logged(notices, caplog, 60)
    assert len(logged(notices, caplog, 90)) == 1


def test_a_shorter_block_after_an_operator_has_ended_another_is_logged(
    notices: Notices, caplog: pytest.LogCaptureFixture
) -> None:
    logged(notices, caplog, 60)
    assert len(logged(notices, caplog, 30)) == 1


def test_a_block_after_the_end_of_another_is_logged(
    notices: Notices, caplog: pytest.LogCaptureFixture
) -> None:
    logged(notices, caplog, 60)
    assert logged(notices, caplog, freed=("a",)) == ["a is no longer blocked"]
    assert len(logged(notices, caplog, 60)) == 1
