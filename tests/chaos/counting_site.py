"""A site over HTTP on several addresses, which counts when each of them is asked, and how often at once."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from pathlib import Path

from tests.support.site import listening

#: Scrapy's own handlers, which the test project replaces.
REAL_DOWNLOADS = {"DOWNLOAD_HANDLERS": "{}"}
#: Seconds between two looks at the clock, and after which one that is late was held up.
INTERVAL, MARGIN = 0.02, 0.05


@dataclass(frozen=True)
class Limit:
    """What a host allows.

    :param delay: seconds between two requests.
    :param concurrency: requests at once; 0: any number.
    """

    delay: float = 0.0
    concurrency: int = 0


@dataclass
class Visit:
    """A request, as the site saw it.

    :param ended: when the answer was ready; None as long as it is not.
    """

    host: str
    path: str
    begun: float
    ended: float | None = None


class CountingSite:
    """Answers on each of *hosts* with the page of the path, or with nothing.

    :param hosts: addresses of this machine.
    :param latency: seconds until an answer.
    :param record: the fleet's record, which gets a line for each request.
    """

    def __init__(self, hosts: list[str], latency: float, record: Path) -> None:
        self.hosts = hosts
        self.latency = latency
        #: The text of a page, by its URL.
        self.texts: dict[str, str] = {}
        #: Where a URL redirects to.
        self.redirects: dict[str, str] = {}
        self.visits: list[Visit] = []
        #: No request is answered while this is closed.
        self.gate = threading.Event()
        self.gate.set()
        self._urls: dict[str, str] = {}
        self._record = record
        self._lock = threading.Lock()
        self._stalls: list[tuple[float, float]] = []
        self._ended = threading.Event()

    def url(self, host: str, path: str) -> str:
        """Return the address of a page."""
        return f"{self._urls[host]}/{path}"

    def visited(self, host: str, prefix: str = "") -> list[Visit]:
        """Return the requests to *host*, in order, by default for all paths."""
        with self._lock:
            return [visit for visit in self.visits if visit.host == host and visit.path.startswith(prefix)]

    def under_way(self, host: str, prefix: str = "") -> int:
        """Return how many requests to *host* are being answered now."""
        return sum(visit.ended is None for visit in self.visited(host, prefix))

    def complaints(
        self, limits: Mapping[str, Limit], share: float, since: float, stalls: list[tuple[float, float]]
    ) -> list[str]:
        """Return in which way the requests begun after *since* broke these limits.

        :param share: the least gap between two requests, as a share of the delay.
        :param stalls: when a worker stood still, from and until: a request that came in or just after such a
            time counts from its beginning, as does one that came when the site itself stood still.
        """
        stalls = stalls + self._stalls
        found = []
        for host, limit in limits.items():
            visits = [visit for visit in self.visited(host) if visit.begun >= since]
            gaps = [after.begun - _counts_from(before, stalls) for before, after in pairwise(visits)]
            if soon := [gap for gap in gaps if gap < share * limit.delay]:
                least = f"least {min(soon):.3f} s of {limit.delay:g} s"
                found.append(f"{host}: {len(soon)} of {len(gaps)} gaps too short, {least}")
            if limit.concurrency and (most := _most_at_once(visits)) > limit.concurrency:
                found.append(f"{host}: {most} requests at once instead of {limit.concurrency}")
        return found

    @contextmanager
    def served(self) -> Iterator[CountingSite]:
        """Serve the pages."""
        with ExitStack() as stack:
            for host in self.hosts:
                self._urls[host] = stack.enter_context(listening(self._handler(host), host))
            stack.callback(self.gate.set)
            watch = threading.Thread(target=self._watch, daemon=True)
            watch.start()
            stack.callback(watch.join)
            stack.callback(self._ended.set)
            yield self

    def _watch(self) -> None:
        """Note when this process stood still: it took requests down too late then."""
        while not self._ended.is_set():
            begun = time.time()
            self._ended.wait(INTERVAL)
            if time.time() > begun + INTERVAL + MARGIN:
                self._stalls.append((begun, time.time() + MARGIN))

    def _begun(self, host: str, path: str) -> Visit:
        with self._lock:
            visit = Visit(host, path, time.time())
            self.visits.append(visit)
        line = f"{visit.begun:.6f} {os.getpid()} downloaded {self.url(host, path)}\n"
        with self._record.open("ab", buffering=0) as record:
            record.write(line.encode())
        return visit

    def _handler(self, host: str) -> type[BaseHTTPRequestHandler]:
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # An answer has two parts, and the second must not wait until the first one is acknowledged.
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                visit = site._begun(host, self.path[1:])
                site.gate.wait()
                time.sleep(site.latency)
                url = site.url(host, visit.path)
                target, body = site.redirects.get(url), site.texts.get(url, "").encode()
                # Before the answer: after it the next request may come at once.
                visit.ended = time.time()
                self.send_response(302 if target else 200)
                if target:
                    self.send_header("Location", target)
                self.send_header("Content-Type", "text/plain; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                pass

        return Handler


def _counts_from(visit: Visit, stalls: list[tuple[float, float]]) -> float:
    return min((begin for begin, end in stalls if begin < visit.begun < end), default=visit.begun)


def _most_at_once(visits: list[Visit]) -> int:
    changes: defaultdict[float, int] = defaultdict(int)
    for visit in visits:
        changes[visit.begun] += 1
        if visit.ended is not None:
            changes[visit.ended] -= 1
    most = now = 0
    for moment in sorted(changes):
        now += changes[moment]
        most = max(most, now)
    return most
