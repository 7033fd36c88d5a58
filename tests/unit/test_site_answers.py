"""The answers of sites that a worker collects for the fleet."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from scrapy.http import Headers

from scrapy_rq_sched.codec.slot_limits import SlotLimits
from scrapy_rq_sched.engine.answers import Answer, Failure
from scrapy_rq_sched.frontier.messages import Batch, SlotAnswers
from scrapy_rq_sched.frontier.replies import Lease, Reply
from scrapy_rq_sched.settings import FrontierSettings
from scrapy_rq_sched.worker.answers import SiteAnswers
from scrapy_rq_sched.worker.ready import Ready

Hear = Callable[..., None]


@pytest.fixture
def answers() -> SiteAnswers:
    return SiteAnswers(Ready(), FrontierSettings())


@pytest.fixture
def hear(answers: SiteAnswers) -> Hear:
    def tell(
        status: int = 200,
        slot: str = "a",
        url: str = "",
        proxy: bool = False,
        age: float = 0.0,
        **headers: Any,
    ) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = time.monotonic() - age
        answers.hear(Answer(slot, status, url or f"http://a/{sent}", sent, proxy, Headers(named)))

    return tell


def sent(answers: SiteAnswers) -> dict[str, SlotAnswers]:
    batch = Batch(1)
    answers.fill(batch)
    return batch.answers


def test_a_429_is_sent_at_once(answers: SiteAnswers, hear: Hear) -> None:
    hear(429, age=2)
    assert answers.has_news
    its = sent(answers)["a"]
    assert (its.is_bad, its.wait, its.reason) == (True, 0, "429")
    assert 2000 <= its.ago < 2500
    assert not answers.has_news


def test_a_wait_is_sent_with_the_rest_of_its_time(answers: SiteAnswers, hear: Hear) -> None:
    hear(503, Retry_After="5")
    its = sent(answers)["a"]
    assert 4900 < its.wait <= 5000
    assert (its.is_bad, its.reason) == (False, "503, and asks to wait")


def test_429_with_a_time_is_both(answers: SiteAnswers, hear: Hear) -> None:
    hear(429, Retry_After="5")
    its = sent(answers)["a"]
    assert its.is_bad
    assert its.wait > 4900


def test_rubbish_in_the_header_counts_as_429_without_it(answers: SiteAnswers, hear: Hear) -> None:
    hear(429, Retry_After="tomorrow, perhaps")
    assert (sent(answers)["a"].is_bad, answers.held) == (True, {"a"})


@pytest.mark.parametrize("status", [200, 301, 404, 500])
def test_retry_after_of_other_answers_does_not_count(answers: SiteAnswers, hear: Hear, status: int) -> None:
    hear(status, Retry_After="5")
    assert sent(answers) == {}


def test_a_site_without_remaining_requests_asks_to_wait(answers: SiteAnswers, hear: Hear) -> None:
    hear(200, RateLimit_Remaining="0", RateLimit_Reset="5")
    assert sent(answers)["a"].wait > 4900


def test_three_different_urls_in_a_row_make_a_server_overloaded(answers: SiteAnswers, hear: Hear) -> None:
    hear(503, url="http://a/1")
    hear(502, url="http://a/2")
    assert not answers.has_news
    hear(504, url="http://a/3")
    assert sent(answers)["a"].reason == "504"


def test_one_broken_page_does_not_make_a_server_overloaded(answers: SiteAnswers, hear: Hear) -> None:
    for _ in range(9):
        hear(503, url="http://a/1")
    assert not answers.has_news


def test_a_good_answer_between_them_ends_the_row(answers: SiteAnswers, hear: Hear) -> None:
    for number in range(9):
        hear(503, url=f"http://a/{number}")
        if number % 2:
            hear(200)
    assert not answers.has_news


def test_a_broken_proxy_does_not_slow_down_its_sites(answers: SiteAnswers, hear: Hear) -> None:
    for number in range(9):
        hear(503, url=f"http://a/{number}", proxy=True)
    assert not answers.has_news


def test_no_request_of_the_slot_begins_until_the_reply(answers: SiteAnswers, hear: Hear) -> None:
    hear(429)
    assert answers.held == {"a"}
    sent(answers)
    assert answers.held == {"a"}
    answers.applied(Reply("e"))
    assert answers.held == set()


def test_an_answer_that_comes_after_the_batch_holds_the_slot_until_the_next_reply(
    answers: SiteAnswers, hear: Hear
) -> None:
    hear(429)
    sent(answers)
    hear(429)
    answers.applied(Reply("e"))
    assert answers.held == {"a"}
    assert answers.has_news
    sent(answers)
    answers.applied(Reply("e"))
    assert answers.held == set()


def test_good_answers_are_sent_only_of_slots_with_a_learnt_delay(answers: SiteAnswers, hear: Hear) -> None:
    hear(200)
    answers.is_learnt = lambda slot: slot == "a"
    hear(200)
    hear(404)
    assert not answers.has_news
    assert sent(answers) == {"a": SlotAnswers(good=2, has_answered=True)}
    answers.is_learnt = lambda slot: False
    hear(200)
    assert sent(answers) == {}


def test_503_with_a_time_from_a_proxy_does_not_count(answers: SiteAnswers, hear: Hear) -> None:
    hear(503, proxy=True, Retry_After="5")
    assert sent(answers) == {}


def test_a_date_counts_from_the_date_of_its_answer(answers: SiteAnswers, hear: Hear) -> None:
    hear(503, Date="Thu, 26 Nov 1998 12:00:00 GMT", Retry_After="Thu, 26 Nov 1998 12:00:05 GMT")
    assert 4900 < sent(answers)["a"].wait <= 5000


def test_a_wait_that_redis_may_have_forgotten_is_sent_again(answers: SiteAnswers, hear: Hear) -> None:
    hear(503, Retry_After="50")
    hear(503, slot="b", Retry_After="0.000001")
    sent(answers)
    answers.rolled_back()
    answers.applied(Reply("e"))
    assert answers.held == {"a"}
    assert 49_000 < sent(answers)["a"].wait <= 50_000


def test_the_last_recall_is_sent_until_redis_has_older_data(answers: SiteAnswers) -> None:
    answers.applied(Reply("e", last_recall=7))
    answers.applied(Reply("e"))
    batch = Batch(1)
    answers.fill(batch)
    assert batch.recalled == 7
    answers.rolled_back()
    answers.fill(batch)
    assert batch.recalled == 0


# -- sites that cannot be reached --------------------------------------------------------------------


def miss(answers: SiteAnswers, url: str = "http://a/", is_of_site: bool = True, ago: float = -1) -> None:
    """Note a failure of a request that was sent *ago* seconds before now; negative: just now."""
    answers.miss(Failure("a", url, time.monotonic() - ago, is_of_site, "refused"))


def test_three_failures_to_connect_in_a_row_are_sent_at_once(answers: SiteAnswers) -> None:
    miss(answers)
    miss(answers)
    assert not answers.has_news
    miss(answers)
    assert (answers.has_news, answers.held) == (True, {"a"})
    assert sent(answers) == {"a": SlotAnswers(reason="refused", failures=3)}


def test_it_is_sent_how_old_the_last_request_that_failed_is(answers: SiteAnswers) -> None:
    answers.is_learnt = lambda slot: True
    for ago in (5, 3, 9):
        miss(answers, ago=ago)
    assert sent(answers)["a"].ago == pytest.approx(3000, abs=500)


def test_any_answer_ends_the_row(answers: SiteAnswers, hear: Hear) -> None:
    for _ in range(2):
        miss(answers)
        miss(answers)
        hear(500)
    assert sent(answers) == {}


def test_one_page_that_never_answers_does_not_count_as_a_site_that_cannot_be_reached(
    answers: SiteAnswers,
) -> None:
    for _ in range(5):
        miss(answers, "http://a/slow", is_of_site=False)
    assert sent(answers) == {}
    miss(answers, "http://a/2", is_of_site=False)
    miss(answers, "http://a/3", is_of_site=False)
    assert sent(answers)["a"].failures == 3


def test_each_failure_of_a_slot_with_a_learnt_delay_is_sent(answers: SiteAnswers) -> None:
    answers.is_learnt = lambda slot: True
    miss(answers)
    assert sent(answers)["a"].failures == 1


def test_an_answer_after_failures_is_sent_instead_of_them(answers: SiteAnswers, hear: Hear) -> None:
    answers.is_learnt = lambda slot: True
    miss(answers)
    hear(500)
    its = sent(answers)["a"]
    assert (its.failures, its.has_answered) == (0, True)


def test_an_answer_cancels_failures_that_are_not_sent_yet(answers: SiteAnswers, hear: Hear) -> None:
    for _ in range(3):
        miss(answers)
    hear(200)
    assert sent(answers)["a"].failures == 0


def test_failures_count_once(answers: SiteAnswers) -> None:
    for _ in range(3):
        miss(answers)
    sent(answers)
    miss(answers)
    assert sent(answers) == {}


# -- robots.txt --------------------------------------------------------------------------------------


def test_a_crawl_delay_is_sent_at_once_and_at_most_as_the_setting_allows(answers: SiteAnswers) -> None:
    answers.hear_crawl_delay("a", 5)
    answers.hear_crawl_delay("b", 3600)
    assert answers.held == {"a", "b"}
    assert {slot: its.crawl_delay for slot, its in sent(answers).items()} == {"a": 5000, "b": 60_000}


def given(slot: str, **reply: Any) -> Reply:
    return Reply("1", leases=[Lease("1.1", "request", 0, b"", slot)], **reply)


def test_a_crawl_delay_that_redis_has_forgotten_is_sent_again(answers: SiteAnswers) -> None:
    answers.hear_crawl_delay("a", 5)
    sent(answers)
    answers.applied(given("a"))
    assert sent(answers)["a"].crawl_delay == 5000
    answers.applied(given("a", limits={"a": SlotLimits(5)}, with_delay=frozenset("a")))
    assert not answers.has_news


def test_a_delay_that_an_operator_has_set_is_not_taken_for_a_forgotten_crawl_delay(
    answers: SiteAnswers,
) -> None:
    answers.hear_crawl_delay("a", 5)
    sent(answers)
    its = frozenset("a")
    answers.applied(given("a", limits={"a": SlotLimits(1)}, with_delay=its, by_operator=its))
    assert not answers.has_news


def test_a_crawl_delay_that_redis_has_forgotten_is_sent_again_beside_autothrottle(
    answers: SiteAnswers,
) -> None:
    answers.hear_crawl_delay("a", 5)
    sent(answers)
    answers.applied(given("a", limits={"a": SlotLimits(1)}, with_delay=frozenset("a")))
    assert sent(answers)["a"].crawl_delay == 5000


@pytest.mark.parametrize(("status", "is_bad"), [(200, False), (404, False), (500, True), (503, True)])
def test_a_site_that_cannot_answer_for_its_robots_txt_is_asked_more_slowly(
    answers: SiteAnswers, hear: Hear, status: int, is_bad: bool
) -> None:
    hear(status, url="http://a/robots.txt")
    assert answers.has_news == is_bad
