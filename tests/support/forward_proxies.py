"""Proxies over HTTP on loopback that answer for each host themselves, and log what each was asked."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from .site import listening

#: Seconds after which a proxy answers in any case, so that a test that fails also ends.
LONGEST = 30.0


class ForwardProxies:
    """Some proxies, named by their number.

    :ivar urls: their addresses, and :ivar names: how a pool names them.
    :ivar asked: when each was asked, by the monotonic clock, and for which URL.
    :ivar status: the status that each answers with, if it is not 200.
    :ivar gates: a proxy answers nothing while its gate is closed.
    :ivar most: how many requests each has answered at a time, at most.
    """

    def __init__(self, count: int, latency: float = 0.02) -> None:
        self.urls: list[str] = []
        self.asked: list[list[tuple[float, str]]] = [[] for _ in range(count)]
        self.status: dict[int, int] = {}
        self.gates = [threading.Event() for _ in range(count)]
        self.most: Counter[int] = Counter()
        self._latency = latency
        self._now: Counter[int] = Counter()
        self._lock = threading.Lock()

    @property
    def names(self) -> list[str]:
        return [urlsplit(url).netloc for url in self.urls]

    def answer(self, number: int, url: str) -> int:
        """Return the status for a request."""
        with self._lock:
            self.asked[number].append((time.monotonic(), url))
            self._now[number] += 1
            self.most[number] = max(self.most[number], self._now[number])
        self.gates[number].wait(LONGEST)
        time.sleep(self._latency)
        # Before the answer: after it the next request may come at once.
        with self._lock:
            self._now[number] -= 1
        return self.status.get(number, 200)

    def handler(self, number: int) -> type[BaseHTTPRequestHandler]:
        """Return the handler of the proxy with this number."""
        proxies = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.send_response(proxies.answer(number, self.path))
                self.send_header("Content-Type", "text/plain")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                pass

        return Handler


@contextmanager
def forward_proxies(count: int) -> Iterator[ForwardProxies]:
    """Serve so many proxies, with their gates open."""
    proxies = ForwardProxies(count)
    with ExitStack() as stack:
        for number, gate in enumerate(proxies.gates):
            gate.set()
            stack.callback(gate.set)
            proxies.urls.append(stack.enter_context(listening(proxies.handler(number))))
        yield proxies
