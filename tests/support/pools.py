"""A frontier with pools whose items have secrets, for the tests of what an operator sees of them."""

from __future__ import annotations

import json
from typing import Any

import redis

from scrapy_rq_sched.codec.pools import Pool, lane_of
from scrapy_rq_sched.frontier.messages import Push
from scrapy_rq_sched.frontier.replies import Reply
from scrapy_rq_sched.inspect.operations.pools import add_items, rest_item, retire_item
from scrapy_rq_sched.inspect.view import View
from scrapy_rq_sched.keys import Keys

from .client import Client

#: A part of each password and cookie.
SECRET = "hunter2"
PASSWORD, COOKIE = f"{SECRET}-password", f"{SECRET}-cookie"
ITEMS = ({"user": name, "password": PASSWORD} for name in ("alice", "bob", "carol", "dave", "erin"))
ACCOUNTS = Pool("accounts", retire_after=3, items=(*ITEMS, {"user": "frank", "delay": 60, "token": PASSWORD}))
PROXIES = Pool("proxies", kind="proxy", is_for_worker=True, items=(f"http://u:{PASSWORD}@p1.example:3128",))
KEYS = Pool("keys", kind="key", items=(f"{SECRET}-first",))
PAGE = "https://shop.example"


def request(path: str, pool: str = "accounts", **more: Any) -> Push:
    """Return a request that needs an item of *pool*."""
    data = {"url": f"{PAGE}/{path}", "meta": {"pool": pool}}
    return Push(
        "force", f"fp-{path}", 0, json.dumps(data).encode(), "shop.example", lane=lane_of("", pool), **more
    )


def start(server: redis.Redis, spider: str = "pooled", name: str = "w-1", **config: Any) -> Client:
    """Return a worker whose settings have the pools."""
    config.setdefault("pools", (ACCOUNTS, PROXIES, KEYS))
    return Client(server, name, "priority", 30.0, 5, keys=Keys(spider), **config).open()


def fill(worker: Client, view: View) -> Reply:
    """Let account alice be in use, with cookies; bob rest, carol be retired, frank wait for a time."""
    worker.say(pushes=[request("1"), request("2")], own_items={"proxies": ""})
    reply = worker.say(want=1)
    worker.say(pool_reports=[("accounts", "alice", {"cookies": f'"{COOKIE}"', "ago": 1})])
    rest_item(view, "accounts", "bob", 60, "status 403").do()
    retire_item(view, "accounts", "carol", "it is locked").do()
    worker.say(pool_reports=[("accounts", "frank", {"ago": 0, "bad": 2})])
    add_items(view, "keys", [f"{SECRET}-key"]).do()
    return reply
