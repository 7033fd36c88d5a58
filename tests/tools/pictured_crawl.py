"""The crawl of the pictures: five shops on this machine, real workers, a death, failures, a blocked host."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

from scrapy_rq_sched.embedded import PrivateRedis

from ..support.pages import ROOT

PROJECT = ROOT / "tests" / "project"
sys.path.insert(0, str(ROOT / "example_project"))

from demo.shop import Shop  # noqa: E402 - the example project is no package of the tests
from demo.site import Answer, SiteProtocol, answer  # noqa: E402

SPIDER = "shops"
#: The books of each host. The last one has much to do, and answers some requests with 503.
HOSTS = {
    "www.books.example": 4000,
    "music.example.org": 1800,
    "shop.example.com": 700,
    "maps.example.net": 900,
    "old.example.com": 900,
}
OVERLOADED = "old.example.com"
#: Mean seconds until an answer; and one page of so many fails.
LATENCY, FAILS_OF = 0.5, 37
SETTINGS = {
    "SPIDER_MODULES": "crawls.shops",
    "EXTENSIONS": "{}",
    "CONCURRENT_REQUESTS": "4",
    "CONCURRENT_REQUESTS_PER_DOMAIN": "4",
    "FRONTIER_LEASE_TIMEOUT": "10",
    "RETRY_TIMES": "0",  # a retry waits behind all other requests of its host: for too long
    "FRONTIER_SET_ASIDE": "callback,download",
    "FRONTIER_SLOTS": json.dumps(
        {
            "maps.example.net": {"delay": 2},
            "shop.example.com": {"rate": "60/m", "concurrency": 1},
            OVERLOADED: {"delay": 0.5},
        }
    ),
}
#: What happens when, as a share of the time until the pictures.
JOINS, DEATH, SUCCESSOR, BLOCK = (0.0, 0.05, 0.2), 0.5, 0.65, 0.8
#: For how many seconds the host is blocked.
BLOCKED = 1200


def _answer(host: str, path: str, shop: Shop) -> Answer:
    """Return the latency and the response of a page, always the same for the same page."""
    chance = zlib.crc32(f"{host}{path}".encode())
    latency = LATENCY * (0.5 + chance % 1000 / 1000)
    fails = path != "/" and chance % FAILS_OF == 0
    if fails and host == OVERLOADED:
        return latency, answer("<title>Overloaded</title>", HTTPStatus.SERVICE_UNAVAILABLE)
    if fails and path.startswith("/author/"):
        return latency, answer("<h1>This author's page is being written</h1>")
    return latency, answer(shop.render(path))


def site_pages() -> dict[str, Answer]:
    """Return the answers of all shops by their URLs: a proxy is asked for a whole URL."""
    pages = {}
    for seed, (host, books) in enumerate(HOSTS.items()):
        shop = Shop(books, seed)
        pages |= {f"http://{host}{path}": _answer(host, path, shop) for path in shop.paths()}
    return pages


@contextmanager
def _serving() -> Iterator[str]:
    """Serve the shops as a proxy that answers for their hosts; give its address."""
    pages, loop = site_pages(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        making = loop.create_server(lambda: SiteProtocol(pages), "127.0.0.1", 0)
        server = asyncio.run_coroutine_threadsafe(making, loop).result()
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@dataclass
class PicturedCrawl:
    """A crawl that goes on.

    :ivar url: the address of its Redis.
    :ivar environment: the variables of its workers.
    """

    url: str
    environment: dict[str, str]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def join(self) -> None:
        """Start a worker."""
        settings = [part for name, value in SETTINGS.items() for part in ("-s", f"{name}={value}")]
        command = ["crawl", SPIDER, "-a", f"hosts={','.join(HOSTS)}", "-L", "ERROR", *settings]
        self.workers.append(self._scrapy(*command))

    def kill(self) -> None:
        """Kill the second worker."""
        self.workers[1].send_signal(signal.SIGKILL)

    def block(self) -> None:
        """Block the host that is overloaded."""
        command = ["frontier", "slots", SPIDER, "block", OVERLOADED, str(BLOCKED)]
        if self._scrapy(*command, "-s", f"SPIDER_MODULES={SETTINGS['SPIDER_MODULES']}").wait():
            raise RuntimeError(f"{OVERLOADED} could not be blocked")

    def play(self, seconds: float) -> None:
        """Have everything happen, in this time.

        :raises RuntimeError: if a worker has ended that was not killed.
        """
        steps: list[tuple[float, Callable[[], None]]] = [(share, self.join) for share in JOINS]
        steps += [(DEATH, self.kill), (SUCCESSOR, self.join), (BLOCK, self.block), (1.0, self._check)]
        begun = time.monotonic()
        for share, step in steps:
            time.sleep(max(0.0, begun + share * seconds - time.monotonic()))
            step()

    def _check(self) -> None:
        ended = [worker.pid for n, worker in enumerate(self.workers) if n != 1 and worker.poll() is not None]
        if ended:
            raise RuntimeError(f"the crawl is over, or workers have died: {ended}")

    def _scrapy(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "scrapy", *arguments]
        return subprocess.Popen(command, cwd=PROJECT, env=self.environment, stdout=subprocess.DEVNULL)


@contextmanager
def pictured_crawl() -> Iterator[PicturedCrawl]:
    """Give a crawl that has not begun; end its workers and its Redis."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(PrivateRedis(folder, port=0))
        proxy = stack.enter_context(_serving())
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "REDIS_URL": server.url}
        crawl = PicturedCrawl(server.url, environment | {"http_proxy": proxy, "REAL_DOWNLOADS": "1"})
        try:
            yield crawl
        finally:
            for worker in crawl.workers:
                worker.kill()
                worker.wait()
