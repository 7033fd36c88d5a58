"""What the dashboard costs: ``python -m benchmarks.dashboard``.

A frontier with many slots, waiting and failed requests and workers; ten browsers that look at all its lists,
and at the list of spiders; and a real browser that opens the page. It needs what the tests need. With
``--crowd``, instead: the answers to a healthy client in a crowd.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from scrapy_rq_sched.embedded import PrivateRedis
from scrapy_rq_sched.frontier.messages import Push
from scrapy_rq_sched.keys import Keys
from tests.dashboard.browser import chromium
from tests.dashboard.filled import REASONS, failed_entry, fill
from tests.support.client import Client

from . import crowd
from .arena import cpu_of

SPIDER = "large"
#: Requests of an exchange.
STEP = 1000
#: What the page asks for while a tab is shown, every two seconds.
TABS = ("workers", "slots", "failed/counts", "peek", "audit")


def fill_large(server: redis.Redis, url: str, sizes: argparse.Namespace) -> None:
    """Have a frontier of *sizes* in Redis."""
    fill(server, url, "small")
    keys = Keys(SPIDER)
    workers = [
        Client(server, f"crawler-{n}-{n}-aaaaaa", "priority", 36_000, 5, keys=keys).open(
            about=json.dumps({"host": f"crawler-{n}", "pid": n, "version": "0.1.0", "scrapy": "2.19"})
        )
        for n in range(sizes.workers)
    ]
    for begin in range(0, sizes.waiting, STEP):
        pushes = []
        for number in range(begin, min(begin + STEP, sizes.waiting)):
            # The first hosts have ten times as many as the others.
            host = f"host-{number % sizes.slots if number % 10 else number % 100}.example.com"
            entry = json.dumps({"url": f"https://{host}/page/{number}"}).encode()
            pushes.append(Push("filter", f"{number:040x}", 0, entry, host))
        workers[0].say(pushes=pushes)
    for number, worker in enumerate(workers):
        worker.say(want=16, pages=number, limit="politeness")
    pipe = server.pipeline()
    for number in range(sizes.failed):
        reason = REASONS[number % 3] if number % 50 else f"callback raised ValueError: {number}"
        pipe.rpush(keys.failed, failed_entry(number, reason, f"https://host-1.example.com/failed/{number}"))
    pipe.execute()
    last = int(time.time()) // 10 * 10
    server.delete(keys.pages)
    server.lpush(
        keys.pages, *(f"{last - 10 * (360 - n)} {200 + n % 50} {sizes.waiting - n}" for n in range(360))
    )


class Browsers:
    """Do what so many browsers do: each follows the stream, and asks for the list of its tab."""

    def __init__(self, url: str, count: int) -> None:
        self.pictures = 0
        self.waited: list[float] = []
        self._url = url
        self._over = threading.Event()
        # One of them looks at all spiders.
        streams = ["stream", *[f"stream?spider={SPIDER}"] * (count - 1)]
        self._threads = [threading.Thread(target=self._follow, args=(one,), daemon=True) for one in streams]
        self._threads += [
            threading.Thread(target=self._ask, args=(TABS[n % len(TABS)],), daemon=True) for n in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def _follow(self, path: str) -> None:
        with urllib.request.urlopen(f"{self._url}api/v1/{path}", timeout=30) as stream:  # noqa: S310
            while not self._over.is_set():
                if stream.readline().startswith(b"data: {"):
                    self.pictures += 1

    def _ask(self, tab: str) -> None:
        while not self._over.wait(2):
            begun = time.monotonic()
            urllib.request.urlopen(f"{self._url}api/v1/{tab}?spider={SPIDER}", timeout=30).read()  # noqa: S310
            self.waited.append(time.monotonic() - begun)

    def stop(self) -> None:
        """Let them go."""
        self._over.set()


def shares(server: redis.Redis, seconds: float) -> list[str]:
    """Return the commands that took most of Redis's time in so many seconds, since the last reset."""
    stats: dict[str, Any] = server.info("commandstats")
    used = sorted(stats.items(), key=lambda item: -item[1]["usec"])
    return [
        f"{name.removeprefix('cmdstat_'):<20}{one['calls'] / seconds:8.1f} a second "
        f"{one['usec'] / seconds / 1e4:.3f} %"
        for name, one in used[:8]
    ]


def first_paint(url: str) -> tuple[float, float]:
    """Return the seconds until a browser has painted something, and until all numbers are there."""
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(
            url
        )  # what it has in its cache is not what is measured, but Chromium itself has to be awake
        page.close()
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{url}#/s/{SPIDER}/slots", wait_until="commit")
        page.wait_for_selector("[data-name=waiting]:not(:empty)")
        filled = page.evaluate("performance.now()")
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        page.close()
    return paint / 1000, filled / 1000


def main() -> None:
    """Measure, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, usual in (("slots", 100_000), ("waiting", 1_000_000), ("failed", 10_000), ("workers", 200)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--browsers", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--crowd", action="store_true", help="measure a healthy client in a crowd")
    parser.add_argument("--large", type=int, default=60, help="entries of 5 MB in a crowd (default: 60)")
    sizes = parser.parse_args()
    if sizes.crowd:
        measure_crowd(sizes.browsers, sizes.seconds, sizes.large)
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        PrivateRedis(Path(folder)) as own,
        redis.Redis.from_url(own.url, protocol=2) as server,
    ):
        begun = time.monotonic()
        fill_large(server, own.url, sizes)
        memory = server.info("memory")["used_memory_human"]
        print(f"filled in {time.monotonic() - begun:.0f} s, {memory} in Redis")
        begun, before = time.monotonic(), cpu_of(server)
        time.sleep(10)
        idle = (cpu_of(server) - before) / (time.monotonic() - begun)
        with served(own.url, folder) as (url, dashboard):
            paint, filled = first_paint(url)
            print(f"first paint after {paint:.2f} s, all numbers after {filled:.2f} s")
            browsers = Browsers(url, sizes.browsers)
            time.sleep(5)
            server.config_resetstat()
            begun, before, pictures = time.monotonic(), cpu_of(server), browsers.pictures
            own_cpu = Path(f"/proc/{dashboard.pid}/stat")
            ticks = sum(map(int, own_cpu.read_text().rpartition(")")[2].split()[11:13]))
            time.sleep(sizes.seconds)
            passed = time.monotonic() - begun
            used = (cpu_of(server) - before) / passed - idle
            ticks = sum(map(int, own_cpu.read_text().rpartition(")")[2].split()[11:13])) - ticks
            a_second = (browsers.pictures - pictures) / passed / sizes.browsers
            print(f"{sizes.browsers} browsers, {passed:.0f} s: {a_second:.2f} pictures a second for each")
            print(f"Redis: {100 * used:.2f} % of a core (idle: {100 * idle:.2f} %)")
            print(f"the dashboard itself: {ticks / passed:.1f} % of a core")
            print(
                f"a list: {1000 * sorted(browsers.waited)[len(browsers.waited) // 2]:.0f} ms in the median, "
                f"{1000 * max(browsers.waited):.0f} ms at the most"
            )
            print("\n".join(shares(server, passed)))
            browsers.stop()
            begun, before = time.monotonic(), cpu_of(server)
            target = f"https://host-7.example.com/page/{sizes.waiting - 3}"
            urllib.request.urlopen(f"{url}api/v1/explain?spider={SPIDER}&url={target}", timeout=300).read()  # noqa: S310
            passed = time.monotonic() - begun
            print(f"a URL explained in {passed:.1f} s, of which Redis {cpu_of(server) - before:.1f} s")


@contextmanager
def served(redis_url: str, folder: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start a dashboard; give its URL and its process."""
    dashboard = subprocess.Popen(
        [sys.executable, "-m", "scrapy", "frontier", "dashboard", "--port", "0", "--redis-url", redis_url],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert dashboard.stdout is not None  # noqa: S101 - it is a pipe
        yield dashboard.stdout.readline().split(" ")[4], dashboard
    finally:
        dashboard.kill()
        dashboard.wait()


def measure_crowd(browsers: int, seconds: float, large: int) -> None:
    """Measure a healthy client, and print it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        PrivateRedis(Path(folder)) as own,
        redis.Redis.from_url(own.url, protocol=2) as server,
    ):
        crowd.fill_lists(server, own.url, large)
        with served(own.url, folder) as (url, dashboard):
            crowd.measure(url, dashboard.pid, browsers, seconds)


if __name__ == "__main__":
    main()
