"""What is told of a fleet in which much happens: each change once, in order, to all who listen."""

from __future__ import annotations

import json
import random
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from scrapy.settings import Settings

from scrapy_rq_sched.events.stream import Stream, order_of
from scrapy_rq_sched.inspect import Control, Event, View, follow_events

from .arena import UNRELEASED, Arena
from .deaths import MANY
from .referee import Outcome
from .registry import scenario
from .server import LAG, Standby

#: How many of a hundred posts the receiver refuses.
REFUSED = 20
SPIDER = "graph"


@scenario(
    "events",
    "Workers are killed at random moments, the crawl is paused and resumed, Redis is killed, and its "
    f"replica, {LAG:g} s behind, takes its place. The receiver of a webhook refuses one post of five. Each "
    "worker that joins leaves or is lost before it joins again, and the crawl starts and finishes once. A "
    "follower gets every event once; the receiver gets every event at least once, in order.",
)
def events(arena: Arena) -> Outcome:
    standby = Standby(arena, LAG)
    with _receiver(arena.random) as (posted, url):
        heard = _follow(arena)
        pages = arena.choose(500, 10_000)
        waits = {"FRONTIER_WAIT_REPLICAS": 1, "FRONTIER_LEASE_TIMEOUT": 6}
        arena.crawl(workers=4, pages=pages, GRAPH_LATENCY=0.1, **MANY, **waits, FRONTIER_WEBHOOK_URL=url)
        most, failovers, kills, done = arena.choose(4, 40), arena.choose(1, 2), [], 0
        for moment in arena.moments(0.9, 0.2, 1.0):
            if done < failovers and arena.share > (done + 1) / (failovers + 2):
                standby.fail_over()
                done += 1
            elif len(kills) < most and len(arena.busy()) > 2 and arena.may_join():
                arena.join()
                victim = arena.random.choice(arena.busy())
                kills.append(arena.fleet.workers[victim].pid)
                arena.fleet.kill(victim)
            if moment % 10 == 5:
                _pause(arena)
        arena.settle()
        told = list(Stream(f"{SPIDER}:events", SPIDER).all_after(arena.client_of(standby.master), "0-0"))
        arena.wait(
            lambda: {event.id for event in told} <= {event.id for event in heard}, "the follower lacks some"
        )
    _check_story(told, {str(pid) for pid in kills})
    ids = [event.id for event in told]
    assert len(heard) == len({(event.id, event.type, event.worker) for event in heard}), "heard twice"
    assert [name for name in dict.fromkeys(posted) if name in ids] == ids, (
        "the receiver lacks some, or their order"
    )
    return Outcome(len(kills) + done, (len(kills) + 4 * done) * UNRELEASED)


def _check_story(told: list[Event], killed: set[str]) -> None:
    """See that the events are those of a fleet that there can be."""
    assert [event.id for event in told] == sorted((event.id for event in told), key=order_of)
    kinds = [event.type for event in told]
    assert (kinds.count("crawl_started"), kinds.count("crawl_finished")) == (1, 1), kinds
    by_worker = defaultdict(list)
    for event in told:
        if event.type.startswith("worker_"):
            by_worker[event.worker].append(event.type)
    for worker, its in by_worker.items():
        assert its[::2] == ["worker_joined"] * (len(its) // 2), f"{worker}: {its}"
        assert set(its[1::2]) <= {"worker_left", "worker_lost"}, f"{worker}: {its}"
        end = "worker_lost" if killed & set(worker.split("-")) else "worker_left"
        assert its[-1] == end, f"{worker}: {its}"
    state = "resumed"
    for kind in kinds:
        if kind in ("paused", "resumed"):
            assert kind != state, kinds
            state = kind


def _pause(arena: Arena) -> None:
    view = View.from_settings(Settings({"REDIS_URL": arena.proxy.url}), SPIDER)
    if view.exists:
        control = Control(view)
        control.pause()
        control.resume()


def _follow(arena: Arena) -> list[Event]:
    heard: list[Event] = []
    follower = follow_events(Settings({"REDIS_URL": arena.proxy.url}), SPIDER)

    def follow() -> None:
        for event in follower:
            heard.append(event)  # noqa: PERF402 - there is no end to it

    threading.Thread(target=follow, daemon=True).start()
    return heard


@contextmanager
def _receiver(chance: random.Random) -> Iterator[tuple[list[str], str]]:
    """Give the ids of the events that were taken, in their order, and where they are posted to."""
    taken: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            refuses = chance.randrange(100) < REFUSED
            if not refuses:
                taken.append(event["id"])
            self.send_response(503 if refuses else 200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield taken, f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
