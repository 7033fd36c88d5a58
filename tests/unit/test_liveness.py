"""A worker that stands still, and the moments at which its supervisor may kill it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

import pytest

from scrapy_rq_sched.runtime.supervised import CLOSING, CRAWLING, OPENING
from scrapy_rq_sched.supervise.liveness import LEASES, PAUSE, Evidence, Limits, Liveness

LEASE, AT_CLOSE = 10.0, 100.0
LIMIT = LEASES * LEASE
#: Seconds between two steps of the supervisor.
STEP = 1.0


class Redis:
    """Answers which requests a worker has begun, and counts the questions.

    :ivar answers_at_once: if not, the answers wait in :attr:`open`.
    """

    def __init__(self, answer: str | None = "http://a.test/7") -> None:
        self.answer = answer
        self.exchange = 1
        self.questions = 0
        self.answers_at_once = True
        self.open: list[Future[Evidence | None]] = []

    def __call__(self, worker: str) -> Future[Evidence | None]:
        self.questions += 1
        self.open.append(Future())
        if self.answers_at_once:
            self.reply()
        return self.open[-1]

    def reply(self) -> None:
        """Answer the last question."""
        answer = None if self.answer is None else Evidence(self.answer, str(self.exchange))
        self.open[-1].set_result(answer)


class Process:
    """A process that is watched, on a clock that the test moves."""

    def __init__(self, redis: Callable[[str], Future[Evidence | None]]) -> None:
        self.now = 0.0
        self.liveness = Liveness(Limits(LEASE, AT_CLOSE, redis), self.now)

    def stand_still(self, seconds: float, step: float = STEP) -> str:
        """Let time pass without a heartbeat; return where the process hung at the last step."""
        end, hung = self.now + seconds, ""
        while self.now < end:
            self.now += step
            self.liveness.step(b"", self.now)
            found = self.liveness.hung_at("worker")
            hung = "" if found is None else found.requests
        return hung

    def beat(self, heartbeat: bytes = CRAWLING) -> None:
        self.now += STEP
        self.liveness.step(heartbeat, self.now)


def test_a_process_that_stands_still_for_some_leases_hangs_at_its_request() -> None:
    process = Process(Redis())
    assert process.stand_still(LIMIT - STEP) == ""
    assert process.stand_still(STEP) == "http://a.test/7"


def test_the_request_is_known_though_another_worker_took_it_over_after_one_lease() -> None:
    redis = Redis()
    process = Process(redis)
    process.stand_still(LEASE)
    redis.answer = ""
    assert process.stand_still(LIMIT - LEASE) == "http://a.test/7"


def test_a_worker_that_has_finished_its_request_since_does_not_hang_at_it() -> None:
    redis = Redis()
    process = Process(redis)
    process.stand_still(LEASE)
    redis.answer, redis.exchange = "", 2
    assert process.stand_still(10 * LIMIT) == ""


@pytest.mark.parametrize(
    ("heartbeat", "expected"),
    [(OPENING, (False, False)), (CRAWLING, (True, False)), (CLOSING, (False, True))],
)
def test_the_phase_of_a_worker_is_that_of_its_last_heartbeat(
    heartbeat: bytes, expected: tuple[bool, bool]
) -> None:
    process = Process(Redis())
    process.beat(OPENING + CRAWLING + heartbeat)
    assert (process.liveness.is_crawling, process.liveness.is_closing) == expected


def test_a_worker_without_a_request_does_not_hang_at_one() -> None:
    assert Process(Redis("")).stand_still(10 * LIMIT) == ""


def test_a_process_that_has_not_joined_does_not_hang_at_a_request() -> None:
    process = Process(Redis())
    process.stand_still(LIMIT)
    assert process.liveness.hung_at("") is None


def test_a_process_never_hangs_at_a_request_while_redis_does_not_answer() -> None:
    redis = Redis()
    process = Process(redis)
    process.stand_still(LIMIT - STEP)
    redis.answer = None
    assert process.stand_still(10 * LIMIT) == ""


def test_a_heartbeat_ends_a_standstill() -> None:
    process = Process(Redis())
    process.stand_still(LIMIT - STEP)
    process.beat()
    assert process.stand_still(LIMIT - STEP) == ""


@pytest.mark.parametrize("pause", [PAUSE + 0.1, 10 * LIMIT])
def test_a_supervisor_that_was_stopped_itself_counts_from_its_return(pause: float) -> None:
    process = Process(Redis())
    process.stand_still(LIMIT - STEP)
    assert process.stand_still(pause, step=pause) == ""
    assert process.stand_still(LIMIT - STEP) == ""
    assert process.stand_still(STEP) == "http://a.test/7"


def test_redis_is_not_asked_about_a_worker_that_sends_heartbeats() -> None:
    redis = Redis()
    process = Process(redis)
    for _ in range(100):
        process.beat()
        assert not process.liveness.is_suspect
        process.stand_still(LEASE / 2 - STEP)
        assert not process.liveness.is_suspect
    process.stand_still(STEP)
    assert process.liveness.is_suspect


def test_a_process_has_time_to_close_from_when_it_had_to() -> None:
    process = Process(Redis())
    process.stand_still(10 * LIMIT)
    told = process.now
    process.stand_still(AT_CLOSE - STEP)
    assert not process.liveness.is_silent_too_long(told)
    process.stand_still(STEP)
    assert process.liveness.is_silent_too_long(told)


def test_a_process_that_closes_slowly_but_sends_heartbeats_is_left_alone() -> None:
    process = Process(Redis())
    for _ in range(int(3 * AT_CLOSE)):
        process.beat(CLOSING)
        assert process.liveness.is_closing
        assert not process.liveness.is_silent_too_long(0.0)


def test_a_question_to_redis_is_not_repeated_until_redis_answers() -> None:
    redis = Redis()
    redis.answers_at_once = False
    process = Process(redis)
    assert process.stand_still(10 * LIMIT) == ""
    assert redis.questions == 1


def test_an_answer_from_before_the_limit_does_not_prove_that_a_worker_hangs() -> None:
    redis = Redis()
    redis.answers_at_once = False
    process = Process(redis)
    process.stand_still(LIMIT)
    redis.reply()
    assert process.stand_still(2 * STEP) == ""
    redis.reply()
    assert process.stand_still(STEP) == "http://a.test/7"


def test_an_answer_from_before_a_heartbeat_is_forgotten() -> None:
    redis = Redis()
    redis.answers_at_once = False
    process = Process(redis)
    process.stand_still(LIMIT)
    process.beat()
    redis.reply()
    assert process.stand_still(LIMIT + STEP) == ""
    assert redis.questions == 2
