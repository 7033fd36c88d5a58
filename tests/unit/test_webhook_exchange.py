"""A receiver cannot hold the webhook for longer than its deadline, whatever it sends, reads or withholds."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
import trustme

from scrapy_rq_sched.events import post
from scrapy_rq_sched.events.event import Event
from scrapy_rq_sched.events.post import Post, Problem

#: Seconds of a deadline in these tests; and seconds after which a post counts as endless.
PATIENCE, ENDLESS = 1.0, 20.0
#: Larger than the buffers of the system, so that a receiver must read it.
LARGE = 20_000_000

Serve = Callable[[Callable[[socket.socket], None]], int]


@pytest.fixture(autouse=True)
def _short_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post, "PATIENCE", PATIENCE)


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start receivers. Each treats one connection after the other, until the test ends."""
    with ExitStack() as stack:

        def start(treat: Callable[[socket.socket], None]) -> int:
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

            def run() -> None:
                with suppress(OSError):
                    while True:
                        connection, _ = listening.accept()
                        with connection, suppress(OSError):
                            treat(connection)

            threading.Thread(target=run, daemon=True).start()
            # A blocked accept() ends only at a shutdown.
            stack.callback(listening.shutdown, socket.SHUT_RDWR)
            return int(listening.getsockname()[1])

        yield start


class Sent(threading.Thread):
    """A post in a thread, with its problem and the seconds of a processor that it has used."""

    def __init__(self, url: str, size: int = 10) -> None:
        super().__init__(daemon=True)
        self.problem: Problem | None = None
        self.cpu = 0.0
        self._post = Post(url, "", "s:events")
        self._event = Event("1-0", 0.0, "paused", "s", "", {"padding": "x" * size})
        self.start()
        self.join(ENDLESS)

    def run(self) -> None:
        begun = time.thread_time()
        self.problem = self._post(self._event)
        self.cpu = time.thread_time() - begun

    @property
    def said(self) -> str:
        assert not self.is_alive(), "the post has not ended"
        assert self.problem is not None, "the event was accepted"
        return self.problem.text


def drip(*begin: bytes, byte: bytes = b"x", read: bool = True) -> Callable[[socket.socket], None]:
    """Return a receiver that sends *begin*, and then a byte now and then, without an end."""

    def treat(connection: socket.socket) -> None:
        if read:
            connection.recv(65_536)
        connection.sendall(b"".join(begin))
        while True:
            connection.sendall(byte)
            time.sleep(PATIENCE / 10)

    return treat


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(b"", id="status line"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX-Header: ", id="header"),
        pytest.param(b"HTTP/1.1 100 Continue\r\nX-Header: ", id="informational header"),
    ],
)
def test_a_receiver_that_drips_its_answer_cannot_extend_the_deadline(serve: Serve, begin: bytes) -> None:
    assert "within 1 s" in Sent(f"http://127.0.0.1:{serve(drip(begin))}/").said


def test_an_answer_is_accepted_before_its_body_ends(serve: Serve) -> None:
    port = serve(drip(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"))
    sent = Sent(f"http://127.0.0.1:{port}/")
    assert not sent.is_alive()
    assert sent.problem is None


def test_endless_informational_answers_use_little_of_a_processor(serve: Serve) -> None:
    def treat(connection: socket.socket) -> None:
        connection.recv(65_536)
        while True:
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)

    sent = Sent(f"http://127.0.0.1:{serve(treat)}/")
    assert "not valid HTTP (AnswerTooLongError)" in sent.said
    assert sent.cpu < PATIENCE / 2


def test_informational_answers_before_the_answer_are_no_problem(serve: Serve) -> None:
    def treat(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + b"HTTP/1.1 204 No Content\r\n\r\n")

    assert Sent(f"http://127.0.0.1:{serve(treat)}/").problem is None


def test_a_receiver_that_drips_its_handshake_cannot_extend_the_deadline(serve: Serve) -> None:
    # A TLS record that announces 16 kB.
    port = serve(drip(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc"))
    assert "within 1 s" in Sent(f"https://127.0.0.1:{port}/").said


def test_a_receiver_that_does_not_read_cannot_extend_the_deadline(serve: Serve) -> None:
    def treat(connection: socket.socket) -> None:
        time.sleep(ENDLESS)

    assert "within 1 s" in Sent(f"http://127.0.0.1:{serve(treat)}/", LARGE).said


def test_a_receiver_that_reads_little_by_little_cannot_extend_the_deadline(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)

    def treat(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secure:
            while secure.recv(65_536):
                time.sleep(PATIENCE / 10)

    def trusting(*args: Any, **kwargs: Any) -> ssl.SSLContext:
        trusted = ssl.create_default_context()
        authority.configure_trust(trusted)
        return trusted

    monkeypatch.setattr(ssl, "_create_default_https_context", trusting)
    assert "within 1 s" in Sent(f"https://127.0.0.1:{serve(treat)}/", LARGE).said


def test_a_proxy_that_drips_cannot_extend_the_deadline(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    port = serve(drip(b"HTTP/1.1 200 Connection established\r\nX-Header: "))
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
    assert "within 1 s" in Sent("https://receiver.example/").said


@pytest.fixture
def full() -> Iterator[int]:
    """The port of a listener whose queue is full: it does not answer a connection."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        yield int(listening.getsockname()[1])


def addresses(*ports: int) -> Callable[..., Any]:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in ports]
    return lambda *args, **kwargs: found


def test_many_addresses_that_do_not_answer_cannot_extend_the_deadline(
    full: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", addresses(*[full] * 40))
    assert "within 1 s" in Sent("http://receiver.example/").said


def test_an_address_that_does_not_answer_leaves_time_for_the_next_one(
    serve: Serve, full: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def treat(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    monkeypatch.setattr(post, "PATIENCE", 10.0)
    monkeypatch.setattr(socket, "getaddrinfo", addresses(full, serve(treat)))
    assert Sent("http://receiver.example/").problem is None


def test_an_address_of_a_family_that_the_system_lacks_leaves_the_next_one(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def treat(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    (works,) = addresses(serve(treat))()
    lacking = (-7, *works[1:])  # as IPv6 with the kernel's ipv6.disable=1
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: [lacking, works])
    assert Sent("http://receiver.example/").problem is None
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: [lacking])
    assert "not supported" in Sent("http://receiver.example/").said


def test_a_name_server_that_does_not_answer_cannot_extend_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: is_over.wait(2 * ENDLESS) or [])
    try:
        assert "within 1 s" in Sent("http://receiver.example/").said
    finally:
        is_over.set()


def test_a_name_that_does_not_exist_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert Sent("http://receiver.example/").said == "gaierror: [Errno -2] Name or service not known"
