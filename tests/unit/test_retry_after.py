"""How long a site asks to wait."""

from __future__ import annotations

import pytest

from scrapy_rq_sched.codec.retry_after import rate_limit_wait, retry_after

#: Thu, 26 Nov 2026 12:00:00 GMT
NOW = 1_795_694_400.0
DAY = 86_400


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("5", 5),
        (" 5 ", 5),
        ("0.5", 0.5),
        (f"{NOW + 7:.0f}", 7),
        ("Thu, 26 Nov 2026 12:00:07 GMT", 7),
        ("Thursday, 26-Nov-26 12:00:07 GMT", 7),
        ("Thu Nov 26 12:00:07 2026", 7),
        ("Thu, 26 Nov 2026 13:00:07 +0100", 7),
    ],
)
def test_a_number_of_seconds_and_a_date_are_read(value: str, seconds: float) -> None:
    assert retry_after(value, NOW) == seconds


def test_a_count_that_begins_anew_tomorrow_is_waited_for_an_hour_at_most() -> None:
    headers = {"RateLimit-Remaining": "0", "RateLimit-Reset": "50000"}
    assert rate_limit_wait(headers.get, NOW) == 3600


@pytest.mark.parametrize("value", ["31536000", "Fri, 26 Nov 2027 12:00:00 GMT", "1e300"])
def test_the_wait_is_a_day_at_most(value: str) -> None:
    assert retry_after(value, NOW) == DAY


@pytest.mark.parametrize(
    "value",
    [
        *(None, "", "0", "-5", "soon", "nan", "inf", "5 minutes", "\x00", "12:00", "Thu, 99 Foo 2026"),
        *("Thu, 26 Nov 2026 11:59:59 GMT", "Thu, 26 Nov 99999 12:00:00 GMT", "9" * 5000),
    ],
)
def test_rubbish_and_the_past_ask_for_no_wait(value: str | None) -> None:
    assert retry_after(value, NOW) is None


@pytest.mark.parametrize(
    "headers",
    [
        {"RateLimit-Remaining": "0", "RateLimit-Reset": "7"},
        {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "7"},
        {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{NOW + 7:.0f}"},
        {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{1000 * NOW + 7000:.0f}"},
        {"RateLimit": "limit=100, remaining=0, reset=7"},
        {"RateLimit": '"default";r=0;t=7'},
        {"RateLimit": "garbage", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "7"},
    ],
)
def test_a_site_without_remaining_requests_is_asked_again_after_its_reset(headers: dict[str, str]) -> None:
    assert rate_limit_wait(headers.get, NOW) == 7


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"RateLimit-Remaining": "3", "RateLimit-Reset": "7"},
        {"RateLimit-Remaining": "0"},
        {"RateLimit-Reset": "7"},
        {"RateLimit-Remaining": "none", "RateLimit-Reset": "7"},
        {"RateLimit-Remaining": "0", "RateLimit-Reset": "0"},
        {"RateLimit": '"default";r=50;t=30'},
        {"RateLimit": "remaining=0"},
    ],
)
def test_a_site_with_remaining_requests_is_asked_at_once(headers: dict[str, str]) -> None:
    assert rate_limit_wait(headers.get, NOW) is None
