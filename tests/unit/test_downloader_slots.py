"""How many requests of a slot the downloader has, as the worker counts them."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, call

import pytest
from scrapy import Request
from scrapy.core.downloader import Slot
from scrapy.exceptions import IgnoreRequest
from twisted.internet.defer import Deferred, succeed

from scrapy_rq_sched.codec.slots import slot_of
from scrapy_rq_sched.engine.downloader_slots import CONNECTING, LOCAL_PART, TOLERATED, DownloaderSlots
from scrapy_rq_sched.worker.grants import KEPT
from scrapy_rq_sched.worker.requests import Entry, Requests

#: A slot of this concurrency may have one more, that waits.
CONCURRENCY, MOST = 4, 5


def own_key(request: Request) -> str:
    """Scrapy's rule."""
    return str(request.meta.get("download_slot") or request.url.split("/")[2])


def seconds(time: float) -> Any:
    """Return about this time. It may be the machine's uptime, which no relative tolerance fits."""
    return pytest.approx(time, abs=1e-3, rel=0)


def a_slot() -> Slot:
    return Slot(CONCURRENCY, 0.0, randomize_delay=False)


@pytest.fixture
def downloader() -> Any:
    downloader = SimpleNamespace(slots={}, _enqueue_request=Mock())

    def get_slot(request: Request) -> tuple[str, Slot]:
        key = request.meta["download_slot"]
        return key, downloader.slots.setdefault(key, a_slot())

    downloader._get_slot = get_slot
    downloader.get_slot_key = own_key
    return downloader


@pytest.fixture
def ledger() -> Requests:
    return Requests()


@pytest.fixture
def slots(downloader: Any, ledger: Requests) -> DownloaderSlots:
    slots = DownloaderSlots(SimpleNamespace(downloader=downloader, signals=Mock()), Mock())
    slots.watch(ledger.coming, lambda request, *_: ledger.reached(request), ledger.left)
    return slots


def begin(ledger: Requests, count: int) -> list[Request]:
    requests = [
        Request(f"http://a.test/{number}", meta={"download_slot": "a.test"}) for number in range(count)
    ]
    for request in requests:
        ledger.begin(Entry(request, None, "a.test"))
    return requests


def test_requests_that_have_not_reached_the_downloader_count(
    slots: DownloaderSlots, ledger: Requests
) -> None:
    begin(ledger, MOST - 1)
    assert slots.load("a.test") == MOST - 1
    begin(ledger, 1)
    assert slots.load("a.test") is None
    assert slots.load("b.test") == 0


def test_a_request_that_has_reached_the_downloader_counts_once(
    slots: DownloaderSlots, ledger: Requests, downloader: Any
) -> None:
    requests = begin(ledger, 2)
    downloader.slots["a.test"] = a_slot()
    downloader.slots["a.test"].active.add(requests[0])
    slots._on_reached(requests[0])
    assert slots.load("a.test") == 2


def test_a_request_that_never_reaches_the_downloader_counts_until_it_is_finished(
    slots: DownloaderSlots, ledger: Requests
) -> None:
    requests = begin(ledger, MOST)
    ledger.sync(requests[:2])
    assert slots.load("a.test") == 2


def test_to_count_makes_no_slot_in_the_downloader(
    slots: DownloaderSlots, ledger: Requests, downloader: Any
) -> None:
    begin(ledger, 1)
    slots.load("a.test")
    assert not downloader.slots


def test_a_slot_has_its_own_delay_again_when_the_fleet_keeps_none(
    slots: DownloaderSlots, downloader: Any
) -> None:
    gaps: dict[str, float] = {"a.test": 5.0}
    slots.follow(gaps.get, Mock(return_value=False), Mock())
    its = downloader.slots["a.test"] = a_slot()
    its.delay = 2.0
    request = Request("http://a.test/", meta={"download_slot": "a.test"})
    slots._on_reached(request)
    assert its.delay == LOCAL_PART * 5
    gaps.clear()
    slots._on_reached(request)
    assert its.delay == 2


@pytest.mark.parametrize(("own", "kept"), [(5.0, 5.0), (0.5, LOCAL_PART)])
def test_a_learnt_delay_lengthens_the_delay_that_a_worker_keeps_by_itself(
    slots: DownloaderSlots, downloader: Any, own: float, kept: float
) -> None:
    slots.follow(lambda slot: 1.0, lambda slot: True, Mock())
    its = downloader.slots["a.test"] = a_slot()
    its.delay = own
    slots._on_reached(Request("http://a.test/", meta={"download_slot": "a.test"}))
    assert its.delay == kept


def test_no_request_waits_in_the_downloader_where_the_fleet_keeps_the_delay(
    slots: DownloaderSlots, ledger: Requests
) -> None:
    slots.follow(lambda slot: 1.0, Mock(return_value=False), Mock())
    begin(ledger, CONCURRENCY - 1)
    assert slots.load("a.test") == CONCURRENCY - 1
    begin(ledger, 1)
    assert slots.load("a.test") is None


def test_a_request_is_sent_when_the_downloader_s_own_clock_says_so(
    slots: DownloaderSlots, downloader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrapy_rq_sched.engine.downloader_slots._clock", lambda: 1.7e9)
    sent: list[float] = []
    slots.follow(lambda slot: 2.0, Mock(return_value=False), Mock())
    slots.watch(Mock(), lambda request, delayed, at, slot: sent.append(at), Mock())
    request = Request("http://a.test/", meta={"download_slot": "a.test"})
    downloader.slots["a.test"] = its = a_slot()
    its.lastseen = 1.7e9 - 1
    slots._on_reached(request)
    assert sent[0] - time.monotonic() == pytest.approx(2.0 * LOCAL_PART - 1, abs=0.2)


def reached(
    slots: DownloaderSlots, downloader: Any, gap: float, lastseen: float
) -> tuple[Request, Mock, Mock]:
    """Have a request of a slot with a delay reach the downloader; return it, and two expected calls."""
    is_reached, is_sent = Mock(), Mock()
    slots.follow(lambda slot: gap, Mock(return_value=False), is_sent)
    slots.watch(Mock(), is_reached, Mock())
    downloader.slots["a.test"] = its = a_slot()
    its.lastseen = lastseen
    request = Request("http://a.test/", meta={"download_slot": "a.test"})
    slots._on_reached(request)
    return request, is_reached, is_sent


@pytest.mark.parametrize("gap", [0.1, 5.0])
def test_the_first_request_of_a_slot_counts_as_sent_when_it_is_answered(
    slots: DownloaderSlots, downloader: Any, gap: float
) -> None:
    request, is_reached, is_sent = reached(slots, downloader, gap, lastseen=0.0)
    latest = is_reached.call_args.args[2]
    assert latest - time.monotonic() == pytest.approx(max(gap, CONNECTING), abs=0.2)
    answered = time.monotonic()
    slots._on_left(request)
    slot, noted, at = is_sent.call_args.args
    assert (slot, noted) == ("a.test", latest)
    assert answered <= at <= time.monotonic()
    assert downloader.slots["a.test"].lastseen >= answered


def test_a_slow_answer_to_the_first_request_does_not_hold_up_its_slot_for_long(
    slots: DownloaderSlots, downloader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers = Timers(slots, monkeypatch)
    request, is_reached, is_sent = reached(slots, downloader, 0.1, lastseen=0.0)
    latest = is_reached.call_args.args[2]
    monkeypatch.setattr("time.monotonic", lambda: latest)
    timers.run()
    monkeypatch.setattr("time.monotonic", lambda: latest + 60)
    slots._on_left(request)
    assert is_sent.call_args_list == [call("a.test", latest, latest)]


@pytest.mark.parametrize(("late", "counted"), [(0.02, 0.0), (0.5, 0.5 - TOLERATED)])
def test_a_later_request_counts_as_sent_some_turns_of_the_event_loop_later(
    slots: DownloaderSlots,
    downloader: Any,
    monkeypatch: pytest.MonkeyPatch,
    late: float,
    counted: float,
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(slots, "_loop", SimpleNamespace(call_later=lambda delay, call: calls.append(call)))
    _, is_reached, is_sent = reached(slots, downloader, 1.0, lastseen=time.monotonic() - 10)
    noted = is_reached.call_args.args[2]
    monkeypatch.setattr("time.monotonic", lambda: noted + late)
    turns = 0
    while calls and not is_sent.called:
        calls.pop()()
        turns += 1
    assert turns > 2
    assert is_sent.call_args.args == ("a.test", noted, seconds(noted + counted))


@pytest.mark.parametrize(("late", "counted"), [(0.02, 0.0), (0.5, 0.5 - TOLERATED)])
def test_a_later_request_that_was_answered_at_once_may_have_been_sent_late(
    slots: DownloaderSlots,
    downloader: Any,
    monkeypatch: pytest.MonkeyPatch,
    late: float,
    counted: float,
) -> None:
    """As if a callback holds up the process just before the request is sent."""
    request, is_reached, is_sent = reached(slots, downloader, 1.0, lastseen=time.monotonic() - 10)
    noted = is_reached.call_args.args[2]
    monkeypatch.setattr("time.monotonic", lambda: noted + late)
    slots._on_left(request)
    assert is_sent.call_args.args == ("a.test", noted, seconds(noted + counted))


def test_a_request_that_is_held_up_in_the_downloader_is_not_sent_at_its_presumed_time(
    slots: DownloaderSlots, downloader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if images of a page wait before it, and a callback holds up the process for some delays."""
    timers = Timers(slots, monkeypatch)
    request, is_reached, is_sent = reached(slots, downloader, 1.0, lastseen=time.monotonic() - 10)
    noted = is_reached.call_args.args[2]
    queue = downloader.slots["a.test"].queue
    queue.extend([(Request("http://a.test/image"), None), (request, None)])
    now = noted + 3.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    monkeypatch.setattr("scrapy_rq_sched.engine.downloader_slots._clock", lambda: now)
    downloader.slots["a.test"].lastseen = now
    timers.run_once()
    assert not is_sent.called
    assert [delay for delay, _ in timers.calls] == [seconds(1 + LOCAL_PART)]
    queue.popleft()
    timers.run_once()
    queue.popleft()
    now += 0.75
    timers.run()
    assert is_sent.call_args_list == [call("a.test", noted, seconds(now - TOLERATED))]


def test_all_that_is_tolerated_together_leaves_nearly_the_whole_delay() -> None:
    assert min(KEPT, LOCAL_PART) - TOLERATED >= 0.95


class Timers:
    """An event loop that the test turns: it keeps the delays and the calls."""

    def __init__(self, slots: DownloaderSlots, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[float, Any]] = []
        loop = SimpleNamespace(call_later=lambda delay, call: self.calls.append((delay, call)))
        monkeypatch.setattr(slots, "_loop", loop)

    def run_once(self) -> None:
        """Make the calls, and those that they make without a delay."""
        _, its = self.calls.pop()
        its()
        while self.calls and not self.calls[-1][0]:
            self.calls.pop()[1]()

    def run(self) -> None:
        """Make all calls, as if their time had come."""
        while self.calls:
            self.calls.pop()[1]()


@pytest.mark.parametrize("late", [0.0, 3.0])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_request_that_waits_in_the_downloader_counts_as_sent_when_its_time_has_come(
    slots: DownloaderSlots,
    downloader: Any,
    monkeypatch: pytest.MonkeyPatch,
    is_first: bool,
    late: float,
) -> None:
    timers = Timers(slots, monkeypatch)
    lastseen = 0.0 if is_first else time.time()
    monkeypatch.setattr("scrapy_rq_sched.engine.downloader_slots._clock", time.time)
    _, is_reached, is_sent = reached(slots, downloader, 2.0, lastseen)
    noted = is_reached.call_args.args[2]
    assert [delay for delay, _ in timers.calls] == [pytest.approx(noted - time.monotonic(), abs=0.2)]
    monkeypatch.setattr("time.monotonic", lambda: noted + late)
    timers.run()
    tolerated = 2.0 * TOLERATED if late else 0.0
    assert is_sent.call_args_list == [call("a.test", noted, seconds(noted + late - tolerated))]


def test_a_request_counts_as_sent_once(
    slots: DownloaderSlots, downloader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers = Timers(slots, monkeypatch)
    request, _, is_sent = reached(slots, downloader, 1.0, lastseen=time.monotonic() - 10)
    slots._on_left(request)
    timers.run()
    assert is_sent.call_count == 1


@pytest.mark.parametrize("has_to_be", [True, False])
def test_a_downloader_is_told_the_spider_only_if_it_has_to_be(has_to_be: bool) -> None:
    told: list[Any] = []

    def needs_spider(request: Request, spider: Any) -> tuple[str, Slot]:
        told.append(spider)
        return "", downloader.slots.setdefault(request.meta["download_slot"], a_slot())

    def takes_spider(request: Request, spider: Any = None) -> tuple[str, Slot]:
        return needs_spider(request, spider)

    downloader = SimpleNamespace(slots={}, per_slot_settings={}, get_slot_key=own_key)
    downloader._enqueue_request = Mock()
    downloader._get_slot = needs_spider if has_to_be else takes_spider
    engine = SimpleNamespace(downloader=downloader, signals=Mock(), spider="it")
    DownloaderSlots(engine, Mock()).by_settings()
    assert told == ["it" if has_to_be else None]


def test_the_target_of_a_redirect_within_the_downloader_has_the_slot_of_its_host(
    slots: DownloaderSlots, downloader: Any
) -> None:
    request = Request("http://a.test/1")
    request.meta["download_slot"] = downloader.get_slot_key(request)
    target = request.replace(url="http://b.test/1")
    assert downloader.get_slot_key(target) == "b.test"
    # To ask for a slot does not change the request.
    assert target.meta == {"download_slot": "a.test"}


def test_a_slot_that_the_user_has_set_stays_the_users(slots: DownloaderSlots, downloader: Any) -> None:
    request = Request("http://a.test/1", meta={"download_slot": "proxy-1"})
    request.meta["download_slot"] = downloader.get_slot_key(request)
    target = request.replace(url="http://b.test/1")
    assert downloader.get_slot_key(target) == "proxy-1"
    assert slot_of(target) == "proxy-1"


def test_a_request_that_is_sent_again_keeps_the_slot_of_its_host(
    slots: DownloaderSlots, downloader: Any
) -> None:
    request = Request("http://a.test/1")
    for _ in range(2):
        request.meta["download_slot"] = downloader.get_slot_key(request)
        assert (slot_of(request), request.meta) == ("a.test", {"download_slot": "a.test"})


async def as_coroutine(request: Request, *arguments: Any) -> str:
    return f"response to {request.url}"


def as_deferred(request: Request, *arguments: Any) -> Deferred[str]:
    return succeed(f"response to {request.url}")


@pytest.mark.parametrize("enqueue", [as_coroutine, as_deferred])
@pytest.mark.parametrize("waits", [True, False])
def test_a_request_that_must_wait_for_a_turn_reaches_the_downloader_then(
    downloader: Any, enqueue: Any, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Scrapy's functions need an event loop.
    module = "scrapy_rq_sched.engine.downloader_slots"
    monkeypatch.setattr(f"{module}.maybe_deferred_to_future", lambda deferred: deferred)
    monkeypatch.setattr(f"{module}.deferred_from_coro", Deferred.fromCoroutine)
    turn: Deferred[None] = Deferred()
    downloader._enqueue_request = enqueue
    engine = SimpleNamespace(downloader=downloader, signals=Mock())
    slots = DownloaderSlots(engine, Mock())
    slots.hold = lambda request, slot: turn if waits and slot == "a.test" else None
    found: list[str] = []
    request = Request("http://a.test/1")
    downloader.active = {request}
    sent = downloader._enqueue_request(request, "spider")
    assert isinstance(sent, Deferred) == (enqueue is as_deferred)
    result = Deferred.fromCoroutine(sent) if enqueue is as_coroutine else sent
    result.addCallback(found.append)
    # While it waits, it takes no place of the downloader.
    assert (bool(found), bool(downloader.active)) == (not waits, not waits)
    turn.callback(None)
    assert (found, downloader.active) == (["response to http://a.test/1"], {request})


def test_requests_that_wait_in_the_downloader_end_when_they_are_denied(
    slots: DownloaderSlots, downloader: Any
) -> None:
    queue = downloader.slots.setdefault("a.test", a_slot()).queue
    ended: list[Any] = []
    for number in range(3):
        done: Deferred[Any] = Deferred()
        done.addErrback(lambda failure: ended.append(failure.value))
        queue.append((Request(f"http://a.test/{number}"), done))
    slots.ignore_queued(lambda url: not url.endswith("1"), "denied")
    assert [request.url for request, _ in queue] == ["http://a.test/1"]
    assert [type(error) for error in ended] == [IgnoreRequest] * 2
