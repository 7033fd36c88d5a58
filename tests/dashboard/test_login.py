"""The login: a password cannot be guessed in reasonable time, and guessers keep nobody out."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.dashboard import create_app, guess_report, sessions, stream
from scrapy_rq_sched.dashboard.guesses import (
    MOST,
    MOST_ADDRESSES,
    MOST_OF_ADDRESS,
    RETRY_AFTER,
    Guesses,
    Pace,
    TooManyGuessesError,
    network_of,
)
from scrapy_rq_sched.dashboard.login import Login, weakness
from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.inspect.audit import Audit

from ..support.client import Client
from ..support.crawl import wait_until
from .asgi import TOKEN, Answer, ask
from .conftest import Make
from .filled import push, worker
from .test_command import Served
from .test_guard import NOWHERE
from .test_neighbour import send

pytestmark = pytest.mark.single("the workers here have the keys of a single server")

PASSWORD = "a-good-password-of-tests"
OWN = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
#: After one wrong guess an address, or everybody, may guess again tomorrow.
SLOW_ADDRESS, SLOW_ALL = Pace(86_400, 0), Pace(0, 86_400)


def right() -> bool:
    return True


def wrong() -> bool:
    return False


async def started(*attempts: Any) -> list[asyncio.Task[bool]]:
    """Start attempts, and let each run until it waits."""
    tasks = [asyncio.ensure_future(attempt) for attempt in attempts]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def after_a_wrong_guess(limited: Guesses, client: str) -> None:
    """Make a wrong guess, whose answer nobody waits for."""
    (task,) = await started(limited.attempt(client, wrong))
    task.cancel()


# -- the pace --------------------------------------------------------------------------------------------


def test_an_address_guesses_twice_a_second() -> None:
    assert Pace() == (0.5, 0.05)

    async def guess() -> float:
        limited, begin = Guesses(Pace(0.1, 0)), time.monotonic()
        await asyncio.gather(*(limited.attempt("192.0.2.1", wrong) for _ in range(6)))
        return time.monotonic() - begin

    assert asyncio.run(guess()) >= 0.6


def test_all_addresses_together_have_a_pace_as_well() -> None:
    async def guess() -> float:
        limited, begin = Guesses(Pace(0, 0.02)), time.monotonic()
        await asyncio.gather(*(limited.attempt(f"192.0.2.{n}", wrong) for n in range(40)))
        return time.monotonic() - begin

    assert asyncio.run(guess()) >= 39 * 0.02


@pytest.mark.parametrize("check", [right, wrong])
def test_a_login_after_a_wrong_guess_is_not_checked_before_the_pause(check: Callable[[], bool]) -> None:
    async def attempt() -> bool:
        limited = Guesses(SLOW_ADDRESS)
        await after_a_wrong_guess(limited, "192.0.2.1")
        (waiting,) = await started(limited.attempt("192.0.2.1", check))
        return waiting.done()

    # The same for both: the time of an answer does not tell whether a guess was right.
    assert not asyncio.run(attempt())


def test_a_client_that_hangs_up_does_not_shorten_the_pause() -> None:
    async def attempt() -> list[int]:
        checked: list[int] = []
        limited = Guesses(SLOW_ADDRESS)
        for number in range(5):

            def check(number: int = number) -> bool:
                checked.append(number)
                return False

            (task,) = await started(limited.attempt("192.0.2.1", check))
            task.cancel()
            await asyncio.sleep(0)
        return checked

    assert asyncio.run(attempt()) == [0]


def test_right_logins_have_no_pace() -> None:
    async def attempt() -> list[bool]:
        limited = Guesses(SLOW_ALL)
        return [await limited.attempt("192.0.2.1", right) for _ in range(100)]

    assert asyncio.run(attempt()) == [True] * 100


def test_another_address_does_not_wait_for_the_pause() -> None:
    async def attempt() -> bool:
        limited = Guesses(SLOW_ADDRESS)
        await after_a_wrong_guess(limited, "192.0.2.1")
        return await limited.attempt("192.0.2.2", right)

    assert asyncio.run(attempt())


def test_an_address_with_fewer_wrong_guesses_is_checked_first() -> None:
    async def attempt() -> list[str]:
        checked: list[str] = []
        limited = Guesses(Pace(0, 0))
        for _ in range(3):
            await limited.attempt("192.0.2.1", wrong)
        limited._pace = Pace(0, 1)
        await limited.attempt("192.0.2.9", wrong)

        def check(name: str) -> Callable[[], bool]:
            return lambda: not checked.append(name)  # type: ignore[func-returns-value]

        await asyncio.gather(
            limited.attempt("192.0.2.1", check("guesser")), limited.attempt("192.0.2.2", check("user"))
        )
        return checked

    assert asyncio.run(attempt()) == ["user", "guesser"]


# -- the bounds ------------------------------------------------------------------------------------------


def test_the_waiting_logins_of_an_address_are_bounded() -> None:
    async def attempt() -> None:
        limited = Guesses(SLOW_ADDRESS)
        await after_a_wrong_guess(limited, "192.0.2.1")
        await started(*(limited.attempt("192.0.2.1", wrong) for _ in range(MOST_OF_ADDRESS)))
        with pytest.raises(TooManyGuessesError):
            await limited.attempt("192.0.2.1", right)

    asyncio.run(attempt())


def test_all_waiting_logins_are_bounded_and_a_new_address_takes_the_place_of_a_guesser() -> None:
    async def attempt() -> tuple[int, int]:
        limited = Guesses(SLOW_ALL)
        guesser = limited._address("192.0.2.250")
        guesser.wrong, guesser.free_at = MOST, time.monotonic()
        await after_a_wrong_guess(limited, "192.0.2.251")
        guessers = await started(limited.attempt("192.0.2.250", wrong))
        guessers += await started(*(limited.attempt(f"192.0.2.{n}", wrong) for n in range(MOST - 1)))
        (user,) = await started(limited.attempt("198.51.100.1", right))
        with pytest.raises(TooManyGuessesError):
            await guessers[0]
        with pytest.raises(TooManyGuessesError):
            await limited.attempt("198.51.100.2", wrong)
        return sum(task.done() for task in guessers), user.done()

    assert asyncio.run(attempt()) == (1, False)


def test_the_remembered_addresses_are_bounded() -> None:
    async def attempt() -> int:
        limited = Guesses(Pace(0, 0))
        for number in range(3 * MOST_ADDRESSES):
            await limited.attempt(f"10.0.{number // 256}.{number % 256}", wrong)
        return len(limited._addresses)

    assert asyncio.run(attempt()) == MOST_ADDRESSES


@pytest.mark.parametrize(
    ("client", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::1", "::1"),
        ("", "an unknown address"),
        ("a line\nbreak", "an unknown address"),
    ],
)
def test_an_ipv6_network_counts_as_one_address(client: str, network: str) -> None:
    assert network_of(client) == network


def test_too_many_logins_are_told_when_to_come_again() -> None:
    known = Login(PASSWORD, guesses=Guesses(SLOW_ADDRESS))
    known._guesses._address("192.0.2.7").waiting = MOST_OF_ADDRESS
    app = create_app(Settings({**NOWHERE, "FRONTIER_DASHBOARD_PASSWORD": PASSWORD}))
    app._login._guesses = known._guesses  # type: ignore[attr-defined]
    for answer in (ask(app, "/", headers=bearer("x")), log_in(app, PASSWORD)):
        assert (answer.status, answer.headers["retry-after"]) == (429, str(RETRY_AFTER))
        assert "Too many logins wait" in answer.error


# -- sessions and connections do not wait ----------------------------------------------------------------


def bearer(password: str = PASSWORD) -> dict[str, str]:
    return {"Authorization": f"Bearer {password}"}


def basic(password: str = PASSWORD) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"frontier:{password}".encode()).decode()}


def log_in(app: Any, password: str, headers: dict[str, str] | None = None) -> Answer:
    return ask(app, "/api/v1/login", "POST", {**OWN, **(headers or {})}, {"password": password})


def cookie_of(answer: Answer) -> dict[str, str]:
    return {"Cookie": answer.headers["set-cookie"].partition(";")[0]}


@pytest.fixture
def app() -> Any:
    """A dashboard with a password."""
    return create_app(Settings({**NOWHERE, "FRONTIER_DASHBOARD_PASSWORD": PASSWORD}))


@contextmanager
def full_queue(app: Any) -> Iterator[None]:
    """Have so many guesses wait that no other login is checked."""
    address = app._login._guesses._address("192.0.2.7")
    address.waiting = MOST_OF_ADDRESS
    yield
    address.waiting = 0


@pytest.mark.parametrize("headers", [bearer(), basic()], ids=["bearer", "basic"])
def test_a_connection_that_has_logged_in_does_not_wait_for_guessers(
    app: Any, headers: dict[str, str]
) -> None:
    def status(port: int, headers: dict[str, str] = headers) -> int:
        return ask(app, "/api/v1/about", headers=headers, client=("192.0.2.7", port)).status

    assert status(5000) == 200
    with full_queue(app):
        assert [status(5000), status(5000)] == [200, 200]
        # A guesser at the same address has another connection, and learns nothing.
        assert status(5001) == 429
        assert status(5000, bearer("wrong")) == 429
        # A connection with a wrong guess is not the one that has logged in.
        assert status(5000) == 429


def test_behind_a_proxy_no_connection_is_recognized(app: Any) -> None:
    client = ("192.0.2.7", 0)
    assert ask(app, "/api/v1/about", headers=bearer(), client=client).status == 200
    with full_queue(app):
        assert ask(app, "/api/v1/about", headers=bearer(), client=client).status == 429


def test_a_session_does_not_wait_for_guessers(app: Any) -> None:
    cookie = cookie_of(log_in(app, PASSWORD))
    with full_queue(app):
        assert ask(app, "/api/v1/about", headers=cookie).status == 200


def test_the_link_does_not_wait_for_guessers() -> None:
    app = create_app(Settings(NOWHERE), token=TOKEN)
    with full_queue(app):
        assert ask(app, f"/?token={TOKEN}").status == 303
        assert ask(app, "/api/v1/about", headers=bearer(TOKEN)).status == 200
        assert ask(app, "/api/v1/about", headers=bearer("wrong")).status == 429


# -- sessions --------------------------------------------------------------------------------------------


def test_a_password_begins_a_session(app: Any) -> None:
    answer = log_in(app, PASSWORD)
    assert (answer.status, answer.json()) == (200, {"said": "Logged in"})
    about = ask(app, "/api/v1/about", headers=cookie_of(answer)).json()
    assert (about["who"], about["has_session"]) == ("frontier from 192.0.2.7", True)


def test_a_wrong_password_begins_none(app: Any) -> None:
    for password in ("wrong", PASSWORD + " ", "ä\u0000"):
        answer = log_in(app, password)
        assert (answer.status, answer.error) == (401, "The password is wrong")
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Host": "evil.example"}, 403),
    ],
)
def test_another_site_cannot_log_a_browser_in_or_out(app: Any, headers: dict[str, str], status: int) -> None:
    assert log_in(app, PASSWORD, headers).status == status
    cookie = cookie_of(log_in(app, PASSWORD))
    assert ask(app, "/api/v1/logout", "POST", {**OWN, **cookie, **headers}, {}).status == status
    assert ask(app, "/api/v1/about", headers=cookie).status == 200


def test_a_log_out_ends_the_session_and_deletes_the_cookie(app: Any) -> None:
    cookie, other = cookie_of(log_in(app, PASSWORD)), cookie_of(log_in(app, PASSWORD))
    answer = ask(app, "/api/v1/logout", "POST", {**OWN, **cookie}, {})
    assert (answer.status, "max-age=0" in answer.headers["set-cookie"].lower()) == (200, True)
    assert ask(app, "/api/v1/about", headers=cookie).status == 401
    assert ask(app, "/api/v1/about", headers=other).status == 200


def test_an_unused_session_ends(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cookie = cookie_of(log_in(app, PASSWORD))
    monkeypatch.setattr(sessions, "IDLE", 0)
    assert ask(app, "/api/v1/about", headers=cookie).status == 401


def test_the_sessions_are_bounded(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST", 3)
    cookies = [cookie_of(log_in(app, PASSWORD)) for _ in range(5)]
    statuses = [ask(app, "/api/v1/about", headers=cookie).status for cookie in cookies]
    assert statuses == [401, 401, 200, 200, 200]


async def until_it_ends(app: Any, cookie: dict[str, str], meanwhile: Callable[[], object]) -> None:
    """Open a stream, call *meanwhile* in a thread when it has begun, and wait until the stream ends."""
    has_begun = asyncio.Event()
    headers = {"host": "127.0.0.1:8000", "cookie": cookie["Cookie"]}
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/api/v1/stream",
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
    }

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(3600)
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        if message.get("body"):
            has_begun.set()

    task = asyncio.ensure_future(app(scope, receive, send))
    await asyncio.wait_for(has_begun.wait(), 30)
    await asyncio.to_thread(meanwhile)
    await asyncio.wait_for(task, 10)


def test_a_log_out_ends_the_streams_of_its_session(make: Make) -> None:
    app = make({"FRONTIER_DASHBOARD_PASSWORD": PASSWORD})
    cookie = cookie_of(log_in(app, PASSWORD))

    def log_out() -> None:
        assert ask(app, "/api/v1/logout", "POST", {**OWN, **cookie}, {}).status == 200

    asyncio.run(until_it_ends(app, cookie, log_out))


def test_a_stream_ends_after_an_hour(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stream.LONGEST == 3600
    monkeypatch.setattr(stream, "LONGEST", 1.0)
    app = make({"FRONTIER_DASHBOARD_PASSWORD": PASSWORD})
    cookie = cookie_of(log_in(app, PASSWORD))
    asyncio.run(until_it_ends(app, cookie, lambda: None))
    assert ask(app, "/api/v1/about", headers=cookie).status == 200


def test_a_link_of_an_earlier_start_leads_a_browser_with_a_session_to_the_page() -> None:
    app = create_app(Settings(NOWHERE), token=TOKEN)
    cookie = cookie_of(ask(app, f"/?token={TOKEN}"))
    answer = ask(app, "/?token=of-an-earlier-start", headers=cookie)
    assert (answer.status, answer.headers["location"]) == (303, "./")
    assert app._login._guesses._addresses == {}  # type: ignore[attr-defined]


def test_a_dashboard_without_a_login_has_no_log_in() -> None:
    app = create_app(Settings(NOWHERE))
    assert log_in(app, "x").status == 404
    assert ask(app, "/api/v1/about").json()["has_session"] is False


def test_a_browser_has_a_form_and_a_program_a_sentence(app: Any) -> None:
    page = ask(app, "/", headers={"Accept": "text/html"})
    assert (page.status, page.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert b'<form id="login"' in page.body
    assert ask(app, "/").error == "Log in with the user 'frontier' and the password"
    # The files of this page contain nothing of a crawl.
    for name in ("style.css", "icon.svg", "login.js"):
        assert ask(app, f"/static/{name}").status == 200


# -- guesses are told ------------------------------------------------------------------------------------


def test_the_log_has_one_line_a_minute_with_the_count_and_the_addresses(
    app: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    app._login._guesses._pace = Pace(0, 0)
    now = [1000.0]
    report = app._login._guesses._report.__self__
    monkeypatch.setattr(report._notice, "_clock", lambda: now[0])
    for number in range(9):
        ask(app, "/api/v1/about", headers=bearer(f"guess-{number}"), client=(f"192.0.2.{number % 3}", 1))
    now[0] += 60
    ask(app, "/api/v1/about", headers=bearer("guess"))
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    text = "The dashboard has refused {} with a wrong password or token, from {}"
    assert lines == [
        text.format("1 login", "192.0.2.0"),
        text.format("9 logins", "192.0.2.1, 192.0.2.2, 192.0.2.0, 192.0.2.7"),
    ]


def test_the_guesses_after_the_last_line_have_a_line_as_well(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    async def report() -> None:
        with ThreadPoolExecutor(1) as executor:
            reported = guess_report.GuessReport(list, executor)
            reported._notice._interval = 0.1
            for _ in range(4):
                reported.wrong("192.0.2.1")
            while len(caplog.records) < 2:
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(report(), 30))
    assert "refused 3 logins" in caplog.records[1].getMessage()


def entries(view: View) -> list[tuple[str, str, str]]:
    return [(entry["who"], entry["action"], entry["result"]) for entry in Audit(view).latest()]


def test_the_audit_list_has_one_entry_for_an_hour_of_guesses(
    make: Make, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make({"FRONTIER_DASHBOARD_PASSWORD": PASSWORD}, actions=True)
    app._login._guesses._pace = Pace(0, 0)
    report = app._login._guesses._report.__self__
    report._notice._interval = 0.0
    Audit(view).note("ann", "pause", {}, "done")
    for number in range(20):
        ask(app, "/api/v1/about", headers=bearer(f"guess-{number}"))
    result = "refused: {} with a wrong password or token"
    wait_until(lambda: len(entries(view)) == 2 and "20 logins" in entries(view)[0][2])
    assert entries(view) == [("192.0.2.7", "login", result.format("20 logins")), ("ann", "pause", "done")]
    monkeypatch.setattr(guess_report, "ENTRY", 0.0)
    ask(app, "/api/v1/about", headers=bearer("guess"))
    wait_until(lambda: len(entries(view)) == 3)
    assert entries(view)[0] == ("192.0.2.7", "login", result.format("1 login"))


def test_a_frontier_that_cannot_be_read_keeps_no_entry_from_the_others(
    make: Make, view: View, server: redis.Redis
) -> None:
    push(worker(server, "neighbour"), {"a.example": 1})
    app = make({"FRONTIER_DASHBOARD_PASSWORD": PASSWORD}, actions=True)
    known = ask(app, "/api/v1/status", headers=bearer(PASSWORD)).json()["frontiers"]
    assert [one["name"] for one in known] == ["neighbour", "shop"]
    server.delete("neighbour:meta")
    server.set("neighbour:meta", "no hash")
    ask(app, "/api/v1/about", headers=bearer("wrong"))
    wait_until(lambda: bool(entries(view)))
    assert entries(view)[0][1] == "login"


def test_a_dashboard_that_only_shows_writes_no_entry(
    make: Make, view: View, caplog: pytest.LogCaptureFixture
) -> None:
    app = make({"FRONTIER_DASHBOARD_PASSWORD": PASSWORD})
    ask(app, "/api/v1/about", headers=bearer("wrong"))
    report = app._login._guesses._report.__self__
    report._executor.shutdown(wait=True)
    assert "refused 1 login" in caplog.text
    assert entries(view) == []


# -- a real server, with real guessers -------------------------------------------------------------------


@pytest.fixture
def served(tmp_path: Path, redis_url: str, shop: list[Client]) -> Iterator[Served]:
    """A process of ``scrapy frontier dashboard`` with a password."""
    one = Served(tmp_path / "log", redis_url, FRONTIER_DASHBOARD_PASSWORD=PASSWORD)
    yield one
    one.process.kill()
    one.process.wait()


class Guessers:
    """Threads that guess as fast as they can, each with one connection after the other."""

    def __init__(self, url: str, count: int) -> None:
        self._url = url
        self._over = threading.Event()
        self.statuses = Counter[int]()
        self._threads = [threading.Thread(target=self._guess, args=(n,)) for n in range(count)]

    def _guess(self, number: int) -> None:
        tried = 0
        while not self._over.is_set():
            tried += 1
            status = send(self._url, "api/v1/about", headers=basic(f"guess-{number}-{tried}"))[0]
            self.statuses[status] += 1

    def __enter__(self) -> Guessers:
        self._begin = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        self.lasted = time.monotonic() - self._begin


@pytest.mark.long
def test_a_password_is_guessed_at_most_twice_a_second(served: Served) -> None:
    with Guessers(served.url, 8) as guessers:
        wait_until(lambda: guessers.statuses[401] >= 8)
    assert guessers.statuses[401] <= 2 * guessers.lasted + 1
    assert set(guessers.statuses) <= {401, 429}
    assert "has refused 1 login with a wrong password or token, from 127.0.0.1\n" in served.said()
    assert served.said().count("\n") == 2
    assert "guess-" not in served.said()


@pytest.mark.long
def test_a_user_comes_in_while_guessers_guess(served: Served) -> None:
    body = json.dumps({"password": PASSWORD})
    with Guessers(served.url, 8) as guessers:
        wait_until(lambda: guessers.statuses[401] >= 2)
        status, headers, _ = send(served.url, "api/v1/login", "POST", OWN, body)
        assert status == 200
        # The guessers have at most 8 places in the queue, before the user.
        wrong_before = guessers.statuses[401]
        cookie = {"Cookie": headers["set-cookie"].partition(";")[0]}
        for _ in range(50):
            assert send(served.url, "api/v1/about", headers=cookie)[0] == 200
        assert guessers.statuses[401] - wrong_before < 50


@pytest.mark.long
def test_a_user_comes_in_among_16_guessers_at_the_same_address(served: Served) -> None:
    with Guessers(served.url, 16) as guessers:
        wait_until(lambda: guessers.statuses[401] >= 2)
        begun = time.monotonic()
        status, *_ = send(served.url, "api/v1/login", "POST", OWN, json.dumps({"password": PASSWORD}))
        waited = time.monotonic() - begun
    assert status == 200
    assert waited < Pace().of_address * MOST_OF_ADDRESS
    assert set(guessers.statuses) == {401}
    assert guessers.statuses[401] <= 2 * guessers.lasted + 1


# -- weak passwords --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("password", "weak"),
    [
        ("secret-word", "has fewer than 12 characters"),
        ("aaaaaaaaaaaaaaaa", "has fewer than 5 different characters"),
        ("PasswordPassword", "is well known"),
        ("1234567890123456", "is well known"),
        ("correcthorsebatterystaple", "is well known"),
        (PASSWORD, ""),
        ("k3J9-qq2x-8vWz", ""),
    ],
)
def test_a_password_that_can_be_guessed_is_weak(password: str, weak: str) -> None:
    assert weakness(password) == weak


@pytest.mark.parametrize(
    ("arguments", "password", "warned"),
    [
        (["--host", "0.0.0.0"], "secret-word", "0.0.0.0"),
        (["--allowed-host", "ops.example"], "secret-word", "ops.example"),
        (["--root-path", "/crawls"], "secret-word", "/crawls"),
        (["--root-path", "/"], "secret-word", ""),
        (["--host", "0.0.0.0"], PASSWORD, ""),
        ([], "secret-word", ""),
    ],
)
def test_a_weak_password_on_a_public_address_is_warned_of(
    tmp_path: Path, redis_url: str, arguments: list[str], password: str, warned: str
) -> None:
    one = Served(tmp_path / "log", redis_url, *arguments, FRONTIER_DASHBOARD_PASSWORD=password)
    try:
        assert one.url
        text = (
            f"scrapy frontier: Other machines can reach {warned}, and FRONTIER_DASHBOARD_PASSWORD has fewer "
            "than 12 characters. Choose a better one, such as 20 random characters\n"
        )
        assert one.said().count(text) == bool(warned)
        assert one.said().count("\n") == 1 + bool(warned)
        assert password not in one.said()
    finally:
        one.process.kill()
        one.process.wait()
