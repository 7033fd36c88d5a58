"""Frontiers that have something of everything, without a crawl."""

from __future__ import annotations

import json
import math
import random
import time
from typing import Any

import redis
from scrapy import Request
from scrapy.settings import Settings
from scrapy.utils.request import RequestFingerprinter

from scrapy_rq_sched.codec.pools import Pool
from scrapy_rq_sched.codec.slot_rules import SlotRule
from scrapy_rq_sched.codec.slots import slot_name
from scrapy_rq_sched.frontier.messages import Push
from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.inspect.slots import Slots
from scrapy_rq_sched.keys import Keys

from ..support.client import Client

TRACEBACK = """Traceback (most recent call last):
  File "shop/spiders/books.py", line 42, in parse_book
    price = response.css(".price::text").re_first(r"[0-9.]+")
  File "shop/prices.py", line 7, in as_cents
    return int(round(float(text) * 100))
TypeError: float() argument must be a string or a real number, not 'NoneType'
"""
BOOKS = "https://www.books.example/book"
REASONS = (
    "callback raised TypeError: float() argument must be a string or a real number, not 'NoneType'",
    "download failed: TimeoutError: 180.0 seconds",
    "workers died of it 5 times",
)


def failed_entry(number: int, reason: str, url: str, **fields: Any) -> str:
    """Return an entry of the failed list."""
    entry = {
        "id": f"w1-{number}",
        "kind": "request",
        "reason": reason,
        "time": int(time.time()) - 60 * number,
        "worker": "crawler-1-411-9f2c1b",
        "deaths": 0,
        "history": "",
        "traceback": TRACEBACK if "callback" in reason else "",
        "data": json.dumps({"url": url}),
        "score": "0",
    }
    return json.dumps({**entry, **fields})


def worker_name(spider: str, number: int = 1) -> str:
    """Return the name of a worker of *spider*."""
    return f"crawler-{number}-{400 + 11 * number}-{hash((spider, number)) % 16**6:06x}"


def worker(server: redis.Redis, spider: str, number: int = 1) -> Client:
    """Return a worker of *spider* that has said who it is."""
    about = {"host": f"crawler-{number}", "pid": 400 + 11 * number, "version": "0.1.0", "scrapy": "2.19.0"}
    return Client(server, worker_name(spider, number), "priority", 30, 5, keys=Keys(spider)).open(
        about=json.dumps(about)
    )


def add_pool(server: redis.Redis, spider: str = "shop") -> None:
    """Have a pool of accounts: alice and bob."""
    accounts = Pool("accounts", items=({"user": "alice", "password": "hunter2"}, "bob"))
    Client(server, "w", "priority", 30, 5, keys=Keys(spider), pools=(accounts,)).frontier.pools.fill()


def fingerprint(url: str) -> str:
    """Return what a worker's filter keeps of *url*."""
    return RequestFingerprinter().fingerprint(Request(url)).hex()


def push(client: Client, counts: dict[str, int]) -> None:
    """Push so many requests to each host."""
    urls = [(host, f"https://{host}/page/{n}") for host, count in counts.items() for n in range(count)]
    pushes = [
        Push("filter", fingerprint(url), 0, json.dumps({"url": url}).encode(), slot_name(host))
        for host, url in urls
    ]
    for begin in range(0, len(pushes), 500):
        client.say(pushes=pushes[begin : begin + 500])


def history(server: redis.Redis, spider: str, pages: list[int], waiting: list[int]) -> None:
    """Have the last ten seconds, again and again, been so."""
    last = int(time.time()) // 10 * 10
    moments = [
        f"{last - 10 * (len(pages) - 1 - n)} {done} {left}"
        for n, (done, left) in enumerate(zip(pages, waiting, strict=True))
    ]
    server.delete(f"{spider}:pages")
    server.lpush(f"{spider}:pages", *moments)


def fill(server: redis.Redis, url: str, spider: str = "shop") -> list[Client]:
    """Have a frontier with workers, slots, failed requests, seeds and a history."""
    workers = [worker(server, spider, number) for number in (1, 2, 3, 4)]
    few = {f"shop-{n}.example.com": 30 - n for n in range(24)}
    many = {"www.books.example": 420, "api.books.example": 260, "images.example.org": 140}
    push(workers[0], {**many, "slow.example.net": 90, **few})
    for number, one in enumerate(workers):
        one.say(want=8, pages=1800 + 217 * number, bottleneck="politeness" if number else "concurrency")
    server.zadd(f"{spider}:workers", {workers[3].name: 1})
    server.rpush(f"{spider}:start_urls", *(f"https://www.books.example/new/{n}" for n in range(3)))
    for number in range(17):
        reason = REASONS[number % 5 % 3]
        server.rpush(f"{spider}:failed", failed_entry(17 - number, reason, f"{BOOKS}/{number}"))
    slots = Slots(View.from_settings(Settings({"REDIS_URL": url}), spider))
    slots.set("www.books.example", SlotRule("www.books.example", delay=0.5))
    slots.set("api.books.example", SlotRule("api.books.example", delay=2.0, concurrency=2))
    slots.block("slow.example.net", 1200)
    chance = random.Random(7)
    pages = [int(150 + 70 * math.sin(n / 33) + chance.gauss(0, 14)) for n in range(330)]
    waiting = [int(900 + 3 * n - (n / 17) ** 2 + 60 * math.sin(n / 21)) for n in range(330)]
    history(server, spider, pages, waiting)
    return workers


def past(server: redis.Redis, spider: str, *crawls: dict[str, Any], first: int = 1) -> None:
    """Have crawls in the history, as ``lua/fleet/record.lua`` writes them. One under way comes after them.

    :param crawls: what is special in each of them, and :param first: the number of the first.
    """
    begin = int(time.time()) // 10 * 10 - 3600 * len(crawls)
    about = {
        "host": "crawler-1",
        "pid": 411,
        "version": "0.1.0",
        "scrapy": "2.19.0",
        "log": "/log/one",
    }
    worker = {"name": worker_name(spider), "about": json.dumps(about), "done": "responses=420 200=400 404=20"}
    entries: dict[str, str] = {}
    for run, special in enumerate(crawls, first):
        began = 1000 * (begin + 3600 * (run - first))
        entry = {
            "run": run,
            "spider": spider,
            "state": "finished",
            "began": began,
            "ended": began + 120_000,
            "pages": 400,
            "items": 380,
            "errors": 3,
            "aside": {"download failed": 12, "callback raised TypeError": 5},
            "done": {"responses": 420, "200": 400, "404": 20, "bytes": 5_000_000, "duplicates": 210},
            "joined": 2,
            "lost": 1,
            "workers": [
                {**worker, "joined": began, "left": began + 119_000},
                {**worker, "name": f"{worker_name(spider)}-2", "joined": began, "lost": began + 60_000},
            ],
            "slots": 2,
            "largest": [["www.books.example", 300, 120], ["slow.example.net", 120, 2400]],
            "slowest": [["slow.example.net", 120, 2400], ["www.books.example", 300, 120]],
            "settings": json.dumps({"DOWNLOAD_DELAY": 0.25, "ROBOTSTXT_OBEY": True}),
            **special,
        }
        points = [f"{began // 1000 + 10 * n} {20 + 2 * n} {300 - 20 * n} {19 + n} {n % 2}" for n in range(12)]
        entries[str(run)] = json.dumps(entry)
        entries[f"{run} chart"] = json.dumps({"width": 10, "points": points})
    server.hset(f"{spider}:meta:crawls", mapping=entries)
    if server.exists(f"{spider}:meta:counts"):
        server.hset(f"{spider}:meta:counts", "run", first + len(crawls))
