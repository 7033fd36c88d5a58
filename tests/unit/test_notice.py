"""News that come often have one line a minute, which tells how many there were."""

from __future__ import annotations

from scrapy_rq_sched.runtime.notice import MOST_SOURCES, Noted, Notice


class Clock:
    """A clock that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_first_news_have_a_line_at_once() -> None:
    assert Notice(clock=Clock()).note("a") == Noted(1, "a")


def test_later_news_wait_for_the_next_line_and_are_counted() -> None:
    clock = Clock()
    notice = Notice(60, clock)
    notice.note("a")
    assert [notice.note("b"), notice.note("c"), notice.note("b")] == [None] * 3
    assert (notice.wait, notice.take()) == (60, None)
    clock.now += 60
    assert (notice.wait, notice.note("a")) == (0, Noted(4, "b, c, a"))
    assert notice.note("a") is None


def test_the_last_news_have_a_line_though_none_follow() -> None:
    clock = Clock()
    notice = Notice(60, clock)
    notice.note("a")
    notice.note("b")
    clock.now += 61
    assert [notice.take(), notice.take()] == [Noted(1, "b"), None]


def test_a_line_names_the_sources_with_the_most_news() -> None:
    clock = Clock()
    notice = Notice(60, clock)
    notice.note("first")
    for number in range(9):
        for _ in range(number + 1):
            notice.note(f"s{number}")
    clock.now += 60
    assert notice.take() == Noted(45, "s8, s7, s6, s5, s4 and 4 more")


def test_the_sources_are_bounded_and_all_news_counted() -> None:
    clock = Clock()
    notice = Notice(60, clock)
    for number in range(5000):
        notice.note(f"s{number}")
    clock.now += 60
    noted = notice.take()
    assert noted is not None
    assert (noted.number, noted.sources.endswith(f" and {MOST_SOURCES - 5} more")) == (4999, True)
