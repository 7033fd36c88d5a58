"""A healthy client of a dashboard in a crowd: ``python -m benchmarks.dashboard --crowd``.

The crowd: browsers that follow the page and ask for all of its lists, streams, half-sent requests, and large
entries in the lists. The healthy client asks for the page, and for the state of a frontier, again and again.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import statistics
import threading
import time
import urllib.request
from collections import Counter
from contextlib import suppress
from pathlib import Path

import redis

from scrapy_rq_sched.keys import Keys
from tests.dashboard.filled import failed_entry, fill

SPIDER = "crowded"
STREAMS, HALF_SENT = 500, 320
#: Characters of a large entry.
SIZE = 5_000_000
#: The lists that a browser shows.
TABS = ("workers", "slots", "failed", "failed/counts", "peek", "audit", "events")
#: Requests of the healthy client; and seconds after which it gives up, and between two requests.
ASKED = ("", f"api/v1/status?spider={SPIDER}", "api/v1/about")
PATIENCE, PAUSE = 10.0, 0.25
_HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "


def fill_lists(server: redis.Redis, url: str, large: int) -> None:
    """Have a frontier with so many large entries in its four lists together."""
    fill(server, url, SPIDER)
    keys, text = Keys(SPIDER), "x" * SIZE
    event = {
        "v": 1,
        "time": time.time(),
        "type": "slot_blocked",
        "spider": SPIDER,
        "slot": text,
        "seconds": 9,
    }
    for number in range(large // 4):
        server.rpush(keys.failed, failed_entry(100 + number, "bad seed", f"https://a.example/{text}"))
        server.rpush(f"{SPIDER}:start_urls", f"https://a.example/{text}")
        server.lpush(
            keys.audit,
            json.dumps(
                {"time": 1, "who": "me", "action": "seed", "arguments": {"seeds": [text]}, "result": ""}
            ),
        )
        server.xadd(keys.events, {"event": json.dumps({**event, "number": 1000 + number})})


class Crowd:
    """Streams and half-sent requests, as many as there can be at each time, and browsers."""

    def __init__(self, url: str, browsers: int) -> None:
        self.streams: Counter[str] = Counter()
        #: Half-sent requests that the server has closed.
        self.closed = 0
        self.lists: list[float] = []
        self.failures = 0
        self._url = url
        self._port = int(url.rsplit(":", 1)[1].strip("/"))
        self._is_over = threading.Event()
        for number in range(browsers):
            tab = TABS[number % len(TABS)]
            threading.Thread(target=self._browse, args=(tab,), daemon=True).start()
        threading.Thread(target=asyncio.run, args=(self._gather(browsers),), daemon=True).start()

    def stop(self) -> None:
        """Let it go."""
        self._is_over.set()

    async def _gather(self, browsers: int) -> None:
        streams = [self._stream() for _ in range(browsers + STREAMS)]
        await asyncio.gather(*streams, *(self._half() for _ in range(HALF_SENT)))

    async def _stream(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(f"GET /api/v1/stream?spider={SPIDER} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        try:
            self.streams[(await reader.readline()).decode()[9:12]] += 1
            while not self._is_over.is_set() and await reader.read(100_000):
                pass
        except OSError:
            self.streams["lost"] += 1

    async def _half(self) -> None:
        while not self._is_over.is_set():
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                writer.write(_HALF)
                await reader.read()
                writer.close()
            self.closed += 1

    def _browse(self, tab: str) -> None:
        while not self._is_over.wait(2):
            begun = time.monotonic()
            if got(f"{self._url}api/v1/{tab}?spider={SPIDER}"):
                self.lists.append(time.monotonic() - begun)
            else:
                self.failures += 1


def got(url: str) -> bool:
    """Return whether *url* was answered."""
    failures = (OSError, http.client.HTTPException)
    with suppress(*failures), urllib.request.urlopen(url, timeout=PATIENCE) as answer:  # noqa: S310 - ours
        answer.read()
        return True
    return False


def memory(process: int, name: str) -> float:
    """Return a size of a process in MB: ``VmRSS``, or ``VmHWM``, the largest so far."""
    text = Path(f"/proc/{process}/status").read_text()
    return int(text.partition(f"{name}:")[2].split()[0]) / 1024


def measure(url: str, process: int, browsers: int, seconds: float) -> None:
    """Print how a healthy client of the dashboard at *url* fares."""
    assert got(url)  # noqa: S101 - it has just started
    print(f"the dashboard alone: {memory(process, 'VmRSS'):.0f} MB")
    crowd = Crowd(url, browsers)
    waited, failures = [], 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for path in ASKED:
            begun = time.monotonic()
            if got(url + path):
                waited.append(time.monotonic() - begun)
            else:
                failures += 1
        time.sleep(PAUSE)
    print(f"streams: {dict(crowd.streams)}; half-sent requests that were closed: {crowd.closed}")
    if waited:
        print(f"a healthy client, {len(waited)} answers: {show(waited)}; without an answer: {failures}")
    else:
        print(f"a healthy client got no answer ({failures} requests)")
    lists = show(crowd.lists) if crowd.lists else "none"
    print(f"a list of {browsers} browsers, {len(crowd.lists)} answers: {lists}; failed: {crowd.failures}")
    print(f"the dashboard: {memory(process, 'VmRSS'):.0f} MB, at most {memory(process, 'VmHWM'):.0f} MB")
    crowd.stop()


def show(seconds: list[float]) -> str:
    """Return the median and the worst of such times."""
    return f"{1000 * statistics.median(seconds):.0f} ms in the median, {1000 * max(seconds):.0f} ms at most"
