"""A crowd of clients, or clients that send and read slowly, do not keep others from the dashboard."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scrapy_rq_sched.dashboard import answers, stream
from scrapy_rq_sched.dashboard import connections as module
from scrapy_rq_sched.dashboard.connections import Connections

from ..support.crawl import wait_until
from .browser import serving
from .test_command import Served

pytestmark = pytest.mark.single("the dashboard's sockets are the same whatever Redis is behind it")

HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
STREAM = b"GET /api/v1/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def sockets() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def served(tmp_path: Path) -> Iterator[list[Served]]:
    """The dashboards of a test: none outlives it."""
    started: list[Served] = []
    yield started
    for one in started:
        one.process.kill()
        one.process.wait()


def connect(sockets: ExitStack, url: str, data: bytes = b"") -> socket.socket:
    port = int(url.rsplit(":", 1)[1].strip("/"))
    client = sockets.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
    client.sendall(data)
    return client


def test_half_sent_requests_that_take_all_descriptors_do_not_keep_a_client_from_the_dashboard(
    tmp_path: Path, redis_url: str, served: list[Served], sockets: ExitStack
) -> None:
    served.append(Served(tmp_path / "log", redis_url, descriptors=300))
    url = served[0].url
    for _ in range(320):
        connect(sockets, url, HALF)
    assert served[0].get("api/v1/about")[0] == 200
    assert served[0].said().count("as many as it admits") == 1


def test_a_client_is_served_while_others_connect_again_and_again(
    tmp_path: Path, redis_url: str, served: list[Served]
) -> None:
    served.append(Served(tmp_path / "log", redis_url, descriptors=300))
    url = served[0].url
    is_over = threading.Event()

    def attack() -> None:
        with ExitStack() as sockets, suppress(OSError):
            while not is_over.is_set():
                with suppress(OSError):
                    connect(sockets, url, HALF)
                time.sleep(0.001)

    attackers = [threading.Thread(target=attack, daemon=True) for _ in range(2)]
    for attacker in attackers:
        attacker.start()
    wait_until(lambda: "as many as it admits" in served[0].said())
    try:
        for _ in range(10):
            assert served[0].get("api/v1/about")[0] == 200
    finally:
        is_over.set()
        for attacker in attackers:
            attacker.join()
    assert "out of system resource" not in served[0].said()


def test_a_body_in_chunks_is_refused_before_they_are_read(
    tmp_path: Path, redis_url: str, served: list[Served], sockets: ExitStack
) -> None:
    served.append(Served(tmp_path / "log", redis_url))
    head = b"POST /api/v1/login HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    client = connect(sockets, served[0].url, head + 1000 * b"1\r\nx\r\n")
    # A parser needs longer for each of them than for a megabyte of a whole body.
    assert client.recv(1000).startswith(b"HTTP/1.1 400 ")
    with suppress(OSError):
        client.sendall(10_000_000 * b"x")
        pytest.fail("the connection is still open")


def test_a_url_of_20_000_escaped_characters_can_be_explained_though_it_comes_in_pieces(
    tmp_path: Path, redis_url: str, served: list[Served], sockets: ExitStack
) -> None:
    served.append(Served(tmp_path / "log", redis_url))
    url = b"http%3A%2F%2Fa.test%2F" + 19_985 * b"%20"
    client = connect(sockets, served[0].url, b"GET /api/v1/explain?spider=nobody&url=" + url)
    client.settimeout(0.3)
    with pytest.raises(TimeoutError):  # the server waits for the rest
        client.recv(1000)
    client.settimeout(10)
    client.sendall(b" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    assert b"There is no frontier" in client.makefile("rb").read()


def test_the_head_of_a_request_is_bounded(
    tmp_path: Path, redis_url: str, served: list[Served], sockets: ExitStack
) -> None:
    served.append(Served(tmp_path / "log", redis_url))
    client = connect(sockets, served[0].url, HALF + (module.HEAD + 1000) * b"x")
    assert client.recv(1000).startswith(b"HTTP/1.1 400 ")


def test_long_answers_are_made_two_at_a_time() -> None:
    lock, now = threading.Lock(), Counter[str]()

    def make() -> dict[str, Any]:
        with lock:
            now["under way"] += 1
            now["most"] = max(now["most"], now["under way"])
        time.sleep(0.02)
        with lock:
            now["under way"] -= 1
        return {}

    async def ask_for_many() -> None:
        await asyncio.gather(*(answers.answer_of(make) for _ in range(20)))

    asyncio.run(ask_for_many())
    assert now["most"] == 2


def test_invalid_requests_do_not_fill_the_log(
    tmp_path: Path, redis_url: str, served: list[Served], sockets: ExitStack
) -> None:
    served.append(Served(tmp_path / "log", redis_url))
    for data in (b"x\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: b\r\n\r\n"):
        assert connect(sockets, served[0].url, data).recv(1000).startswith(b"HTTP/1.1 4")
    assert served[0].stop() == 0
    assert served[0].said().count("\n") == 1


async def burst(url: str, count: int, meanwhile: Any) -> Counter[str]:
    """Open so many streams at once, call *meanwhile*, and return how many of them got each status."""
    port = int(url.rsplit(":", 1)[1].strip("/"))
    opened: list[asyncio.StreamWriter] = []

    async def ask() -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        opened.append(writer)
        writer.write(STREAM)
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        status = head.split()[1]
        return status if status == "200" else f"{status}, {'retry-after: 10' in head.lower()}"

    found = Counter(await asyncio.gather(*(ask() for _ in range(count))))
    await asyncio.to_thread(meanwhile)
    for writer in opened:
        writer.transport.abort()
    return found


def test_of_a_burst_of_streams_as_many_as_the_limit_are_admitted(
    tmp_path: Path, redis_url: str, served: list[Served]
) -> None:
    served.append(Served(tmp_path / "log", redis_url))

    def poll() -> None:
        assert served[0].get("api/v1/status")[0] == 200

    for _ in range(2):  # the places of streams that have ended are free
        found = asyncio.run(burst(served[0].url, 500, poll))
        assert found == {"200": stream.MOST, "503, True": 500 - stream.MOST}
        wait_until(lambda: b"200 OK" in answer(served[0].url, STREAM))


def test_streams_leave_connections_for_other_requests(
    tmp_path: Path, redis_url: str, served: list[Served]
) -> None:
    served.append(Served(tmp_path / "log", redis_url, descriptors=160))

    def poll() -> None:
        assert served[0].get("api/v1/status")[0] == 200

    found = asyncio.run(burst(served[0].url, 60, poll))
    assert found == {"200": 40, "503, True": 20}


def answer(url: str, data: bytes) -> bytes:
    """Return the first bytes that a client gets."""
    with ExitStack() as sockets:
        return connect(sockets, url, data).recv(1000)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deadlines that a test can wait for."""
    monkeypatch.setattr(module, "TO_SEND", 0.5)
    monkeypatch.setattr(module, "TO_READ", 1.0)


async def empty(scope: Any, receive: Any, send: Any) -> None:
    """An application that answers at once, before it has read the body."""
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def reading(scope: Any, receive: Any, send: Any) -> None:
    """An application that reads the body first."""
    while (await receive()).get("more_body"):
        pass
    await empty(scope, receive, send)


def is_closed_while_it_drips(client: socket.socket) -> bool:
    """Send a byte now and then; return whether the server closes the connection."""
    client.settimeout(0.1)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            client.sendall(b"x")
            if not client.recv(1000):
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


@pytest.mark.parametrize(
    ("app", "begin"),
    [
        pytest.param(empty, b"", id="nothing"),
        pytest.param(empty, HALF, id="head"),
        pytest.param(empty, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" + HALF, id="head of the second request"),
        pytest.param(
            reading, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\n", id="body that is read"
        ),
        pytest.param(
            empty, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\n", id="body that is not read"
        ),
    ],
)
def test_a_request_that_comes_byte_by_byte_has_a_deadline(
    short: None, sockets: ExitStack, app: Any, begin: bytes
) -> None:
    with serving(app, http=Connections(10)) as url:
        assert is_closed_while_it_drips(connect(sockets, url, begin))


def test_a_request_may_take_longer_than_the_deadline_to_be_answered(short: None) -> None:
    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(3 * module.TO_SEND)
        await empty(scope, receive, send)

    with serving(slow, http=Connections(10)) as url:
        assert urllib.request.urlopen(url, timeout=20).status == 204


def large(size: int, begun: list[Any] | None = None) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if begun is not None:
            begun.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(size)})

    return app


@pytest.mark.parametrize("header", [b"", b"Connection: close\r\n"], ids=["keep-alive", "close"])
@pytest.mark.parametrize("size", [50_000_000, 4_000_000])
def test_a_client_that_does_not_read_loses_its_connection(
    short: None, sockets: ExitStack, size: int, header: bytes
) -> None:
    ours, begun = Connections(10), list[Any]()
    with serving(large(size, begun), http=ours) as url:
        connect(sockets, url, b"GET / HTTP/1.1\r\nHost: a\r\n" + header + b"\r\n")
        # The kernel may take all of a smaller response, so that the connection ends at once.
        wait_until(lambda: begun)
        wait_until(lambda: not ours._peers, 20)


def test_a_client_that_reads_slowly_gets_all_of_its_response(short: None, sockets: ExitStack) -> None:
    size = 20_000_000
    with serving(large(size), http=Connections(10)) as url:
        client = connect(sockets, url, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        got = 0
        while data := client.recv(1_000_000):
            got += len(data)
            time.sleep(module.TO_SEND / 5)  # all of it takes much longer than each of the deadlines
    assert got > size


def test_a_new_connection_is_refused_while_all_others_have_requests(sockets: ExitStack) -> None:
    begun = []

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        begun.append(scope)
        await asyncio.sleep(3600)

    with serving(endless, http=Connections(2), timeout_graceful_shutdown=0) as url:
        for _ in range(2):
            connect(sockets, url, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_until(lambda: len(begun) == 2)
        head, body = answer(url, b"").split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After: 10" in head
    assert "too many connections" in json.loads(body)["error"]


class Peer:
    """A connection without a socket."""

    def __init__(self, closed: list[str], name: str) -> None:
        self.transport = SimpleNamespace(abort=lambda: closed.append(name))


class Peers:
    """Such connections, and the names of the closed ones."""

    def __init__(self, most: int) -> None:
        self.all = Connections(most)
        self.closed: list[str] = []

    def admit(self, name: str, address: str = "127.0.0.1") -> Any:
        """Add one that waits for a request; return it, or None if it is refused."""
        peer: Any = Peer(self.closed, name)
        if not self.all.admit(peer, address):
            return None
        self.all.awaits_request(peer)
        return peer


def test_the_connection_that_has_waited_longest_for_a_request_makes_room() -> None:
    peers = Peers(3)
    first, second, _ = (peers.admit(name) for name in "abc")
    peers.all.has_request(second)
    peers.all.awaits_request(first)  # it has got a response meanwhile
    assert peers.admit("d")
    assert peers.admit("e")
    assert peers.closed == ["c", "a"]


def test_a_client_that_reads_slowly_makes_room_if_all_have_requests() -> None:
    peers = Peers(2)
    for name in "ab":
        peer = peers.admit(name)
        peers.all.has_request(peer)
    peers.all.stops_reading(peer)
    assert peers.admit("c")
    assert peers.closed == ["b"]


@pytest.mark.parametrize(
    ("same", "other"),
    [
        (["192.0.2.1"] * 5, "192.0.2.2"),
        (["::ffff:192.0.2.1"] * 5, "::ffff:192.0.2.2"),
        ([f"2001:db8::{number}:1" for number in range(5)], "2001:db8:0:1::1"),
        ([f"fe80::{number}%eth0" for number in range(5)], "192.0.2.1"),
    ],
    ids=["IPv4", "IPv4 in IPv6", "IPv6", "link-local"],
)
def test_an_address_of_another_machine_can_have_half_of_the_connections(same: list[str], other: str) -> None:
    peers = Peers(8)
    here = peers.admit("here")
    for address in same[:4]:
        peers.all.has_request(peers.admit("one", address))
    assert peers.admit("one too many", same[4]) is None
    assert peers.admit("other", other)
    assert here
    assert not peers.closed


def test_an_address_that_has_its_share_makes_room_for_itself() -> None:
    peers = Peers(8)
    peers.admit("other", "192.0.2.2")
    for number in range(5):
        assert peers.admit(str(number), "192.0.2.1")
    assert peers.closed == ["0"]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1", ""])
def test_the_users_of_a_proxy_on_this_machine_can_have_all_connections(address: str) -> None:
    peers = Peers(8)
    for number in range(8):
        peers.all.has_request(peers.admit(str(number), address))
    assert peers.admit("9", address) is None


def test_a_place_is_free_when_its_connection_is_closed() -> None:
    peers = Peers(2)
    for number in range(100):
        peer = peers.admit(str(number), "192.0.2.1")
        peers.all.has_request(peer)
        peers.all.remove(peer)
    assert not peers.closed


@pytest.mark.parametrize(
    ("limits", "most", "raised"),
    [
        ((300, 300), 204, None),
        ((100, 100), 50, None),
        ((256, 4096), 1000, (1096, 4096)),
        ((256, -1), 1000, (1096, -1)),
        ((1_000_000, 1_000_000), 1000, None),
        ((-1, -1), 1000, None),
    ],
)
def test_the_limit_of_descriptors_bounds_the_connections(
    limits: tuple[int, int], most: int, raised: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[Any] = []
    system = SimpleNamespace(
        RLIMIT_NOFILE="files",
        RLIM_INFINITY=-1,
        getrlimit=lambda name: limits,
        setrlimit=lambda name, new: done.append(new),
    )
    monkeypatch.setattr(module, "resource", system)
    assert module.most_connections() == most
    assert [one for one in done if one != limits] == ([raised] if raised else [])
