"""What the sites answer to this worker, for the whole fleet.

It learns here which sites ask to wait, which are asked too fast, and which cannot be reached.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from ..codec.retry_after import date_of, rate_limit_wait, retry_after
from ..engine.answers import Answer, Failure
from ..frontier.messages import Batch, SlotAnswers
from ..frontier.replies import Part, Reply
from ..settings import FrontierSettings
from .ready import Ready
from .requests import is_robots

#: The status of an answer to a client that asks too fast (RFC 6585), and of a server that is overloaded.
TOO_MANY, UNAVAILABLE = 429, 503
#: So many different URLs in a row must have an answer of ``BACKOFF_HTTP_CODES``, other than 429, until the
#: site is asked more slowly: a single page may be broken, and Scrapy retries it.
IN_A_ROW = 3
#: Number of slots whose last answers are remembered.
REMEMBERED = 10_000


@dataclass(slots=True)
class _News:
    """What Redis does not know yet of a slot's answers; times by the monotonic clock."""

    good: int = 0
    bad_sent: float | None = None
    wait_until: float = 0.0
    reason: str = ""
    failures: int = 0
    failed_sent: float = 0.0
    has_answered: bool = False
    crawl_delay: float = 0.0


class SiteAnswers(Part):
    """Collect the answers of sites for the next exchange.

    From a bad answer until the frontier's reply, no request of its slot begins: the reply tells the new
    limits.

    :param ready: the leases of this worker.
    :ivar is_learnt: returns whether the fleet has learnt a delay of a slot, and needs its good answers, too.
    :ivar held: the slots of which no request begins until the next reply.
    """

    def __init__(self, ready: Ready, settings: FrontierSettings) -> None:
        self._ready = ready
        self._codes = settings.backoff_http_codes
        self._news: dict[str, _News] = {}
        # The different URLs of each slot that had bad answers since the last good one.
        self._in_a_row: dict[str, set[str]] = {}
        # The requests of each slot that could not reach its site since its last answer: the URLs of those
        # that had no answer, and a number for each of the others.
        self._missed: dict[str, set[str | int]] = {}
        self._sent: set[str] = set()
        # The slots whose sites have asked to wait, until when, by the monotonic clock, and why.
        self._waits: dict[str, tuple[float, str]] = {}
        self._last_recall = 0
        self._crawl_delay_max = settings.crawl_delay_max
        # The Crawl-delays that this worker has read: Scrapy reads each robots.txt only once.
        self._crawl_delays: dict[str, float] = {}
        self.held: set[str] = set()
        self.is_learnt: Callable[[str], bool] = lambda slot: False

    @property
    def has_news(self) -> bool:
        """Whether an answer concerns the other workers. Good answers wait for the next exchange."""
        return bool(self.held - self._sent)

    def hear(self, answer: Answer) -> None:
        """Note an answer of a site."""
        slot, status = answer.slot, answer.status
        self._missed.pop(slot, None)
        if slot in self._news:
            self._news[slot].failures = 0
        if self.is_learnt(slot):
            self._of(slot).has_answered = True
        if (wait := self._wait(answer)) is not None:
            self._ask_to_wait(slot, time.monotonic() + wait, f"{status}, and asks to wait")
        if status == TOO_MANY or self._is_overloaded(answer) or self._lacks_robots(answer):
            news = self._of(slot, str(status))
            news.bad_sent = max(news.bad_sent or 0.0, answer.sent)
            self._hold(slot)
        elif status not in self._codes:
            self._in_a_row.pop(slot, None)
            if self.is_learnt(slot):
                self._of(slot).good += 1

    def miss(self, failure: Failure) -> None:
        """Note that a request could not reach its site."""
        slot = failure.slot
        if len(self._missed) >= REMEMBERED:
            self._missed.clear()
        missed = self._missed.setdefault(slot, set())
        missed.add(len(missed) if failure.is_of_site else failure.url)
        if len(missed) >= IN_A_ROW or self.is_learnt(slot):
            news = self._of(slot, failure.reason)
            news.failures, news.has_answered, news.reason = len(missed), False, failure.reason
            news.failed_sent = max(news.failed_sent, failure.sent)
            self._hold(slot)

    def hear_crawl_delay(self, slot: str, delay: float) -> None:
        """Note the ``Crawl-delay`` of a slot, in seconds."""
        if len(self._crawl_delays) >= REMEMBERED:
            self._crawl_delays.clear()
        self._crawl_delays[slot] = min(delay, self._crawl_delay_max)
        self._tell_crawl_delay(slot)

    def _tell_crawl_delay(self, slot: str) -> None:
        self._of(slot).crawl_delay = self._crawl_delays[slot]
        self._hold(slot)

    @staticmethod
    def _wait(answer: Answer) -> float | None:
        """Return how many seconds the site asks to wait, by its own clock; None if it does not."""
        # A proxy without a connection answers 503, but it knows nothing of the site's limits.
        is_asked = answer.status == TOO_MANY or (answer.status == UNAVAILABLE and not answer.is_by_proxy)
        if not (is_asked or answer.has_rate_limit):
            return None
        now = date_of(answer.header("Date")) or time.time()
        wait = retry_after(answer.header("Retry-After"), now) if is_asked else None
        return rate_limit_wait(answer.header, now) if wait is None else wait

    def _ask_to_wait(self, slot: str, until: float, reason: str) -> None:
        news = self._of(slot, reason)
        news.wait_until = max(news.wait_until, until)
        if len(self._waits) >= REMEMBERED:
            self._waits.clear()
        self._waits[slot] = news.wait_until, reason
        self._hold(slot)

    @staticmethod
    def _lacks_robots(answer: Answer) -> bool:
        """Return whether the site cannot say what its robots.txt forbids (RFC 9309, 2.3.1.4)."""
        return answer.status >= 500 and is_robots(answer.url) and not answer.is_by_proxy

    def _is_overloaded(self, answer: Answer) -> bool:
        """Return whether the site cannot answer several URLs in a row."""
        # A proxy may have answered, which only this worker may have.
        if answer.status not in self._codes or answer.is_by_proxy:
            return False
        if len(self._in_a_row) >= REMEMBERED:
            self._in_a_row.clear()
        urls = self._in_a_row.setdefault(answer.slot, set())
        urls.add(answer.url)
        if len(urls) < IN_A_ROW:
            return False
        urls.clear()
        return True

    def _of(self, slot: str, reason: str = "") -> _News:
        news = self._news.setdefault(slot, _News())
        news.reason = news.reason or reason
        return news

    def _hold(self, slot: str) -> None:
        self._sent.discard(slot)
        self.held.add(slot)
        self._ready.look_again(slot)

    def fill(self, batch: Batch) -> None:  # noqa: D102
        now = time.monotonic()
        batch.recalled = self._last_recall
        batch.answers = {slot: _to_wire(news, now) for slot, news in self._news.items()}
        self._sent = set(self.held)
        for slot, news in self._news.items():
            if news.failures:
                # Another worker may reach the site: then this worker's failures must repeat until they count.
                self._missed.pop(slot, None)
        self._news.clear()

    def applied(self, reply: Reply) -> None:
        """Let the next requests of slots begin, with the limits in *reply*."""
        self._last_recall = max(self._last_recall, reply.last_recall)
        self._let_go(self._sent)
        # Redis forgets the state of a slot that was not used for a while.
        for slot in {lease.slot for lease in reply.leases} if self._crawl_delays else ():
            delay, limits = self._crawl_delays.get(slot, 0.0), reply.limits.get(slot)
            if delay and (limits is None or (limits.delay < delay and slot not in reply.by_operator)):
                self._tell_crawl_delay(slot)

    def rolled_back(self) -> None:
        """Note that Redis may have forgotten the last recalls, and for how long sites have asked to wait."""
        self._last_recall = 0
        waits, self._waits = self._waits, {}
        for slot, (until, reason) in waits.items():
            if until > time.monotonic():
                self._ask_to_wait(slot, until, reason)

    def _let_go(self, slots: Collection[str]) -> None:
        for slot in tuple(slots):
            self.held.discard(slot)
            self._ready.look_again(slot)
        self._sent = set()


def _to_wire(news: _News, now: float) -> SlotAnswers:
    sent = news.failed_sent if news.failures else news.bad_sent
    ago = 0.0 if sent is None else max(0.0, now - sent)
    wait = max(0.0, news.wait_until - now)
    return SlotAnswers(
        *(news.good, news.bad_sent is not None, round(1000 * ago, 3), round(1000 * wait, 3), news.reason),
        *(news.failures, news.has_answered, round(1000 * news.crawl_delay, 3)),
    )
