"""What all workers are told: pause, drain, resume, stop."""

from __future__ import annotations

import json

import pytest
import redis
from scrapy import version_info
from scrapy.settings import Settings

from scrapy_rq_sched.errors import InspectionError
from scrapy_rq_sched.frontier.custom_queue import CustomQueueFrontier
from scrapy_rq_sched.frontier.messages import Batch
from scrapy_rq_sched.frontier.replies import Order
from scrapy_rq_sched.inspect import Control, View, read_status

from ..support.client import Join, payloads
from ..support.crawl import Fleet, run_python, wait_until

PAGES = 500


@pytest.fixture
def view(redis_url: str) -> View:
    return View.from_settings(Settings({"REDIS_URL": redis_url}), "s")


def control(redis_url: str, spider: str = "s") -> Control:
    return Control(View.from_settings(Settings({"REDIS_URL": redis_url}), spider))


# -- the exchange ----------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["pause", "drain"])
def test_nothing_is_handed_out_while_the_crawl_is_paused_or_drained(
    join: Join, redis_url: str, what: str
) -> None:
    worker = join()
    worker.push("one")
    getattr(control(redis_url), what)()
    reply = worker.say(want=5, want_seeds=5)
    assert (reply.order, reply.leases, reply.waiting) == (Order(what), [], 1)


def test_seeds_stay_where_they_are_while_the_crawl_is_paused(
    join: Join, redis_url: str, server: redis.Redis
) -> None:
    worker = join()
    server.rpush("s:start_urls", "http://example.com/")
    control(redis_url).pause()
    assert worker.say(want=5, want_seeds=5).leases == []
    assert server.llen("s:start_urls") == 1


def test_requests_are_stored_and_leases_released_while_the_crawl_is_paused(
    join: Join, redis_url: str
) -> None:
    worker = join()
    worker.push("one")
    (lease,) = worker.take(1)
    control(redis_url).pause()
    worker.push("two")
    reply = worker.say(finished=[lease.name], in_hand=0)
    assert reply.waiting == 1
    assert worker.say(in_hand=0).leased is None


def test_a_worker_that_joins_later_is_told_too(join: Join, redis_url: str) -> None:
    join("a").push("one")
    control(redis_url).pause()
    assert join("b").say(want=5).order == Order.PAUSE


def test_a_crawl_that_is_resumed_goes_on(join: Join, redis_url: str) -> None:
    worker = join()
    worker.push("one")
    control(redis_url).pause()
    worker.say(want=5)
    control(redis_url).resume()
    reply = worker.say(want=5)
    assert (reply.order, payloads(reply.leases)) == (Order.CRAWL, ["one"])


def test_a_stop_reaches_only_the_workers_that_have_joined(join: Join, redis_url: str) -> None:
    old = join("old")
    old.push("one")
    assert control(redis_url).stop() == 1
    new = join("new")
    assert old.say(want=5).order == Order.STOP
    assert payloads(new.say(want=5).leases) == ["one"]


def test_a_worker_that_redis_has_forgotten_is_not_told_of_a_stop_before(
    join: Join, redis_url: str, server: redis.Redis
) -> None:
    worker = join()
    worker.push("one")
    control(redis_url).stop()
    server.delete("s:worker:a")
    assert worker.say(want=5).order == Order.CRAWL


def test_an_order_does_not_hold_for_the_next_crawl(join: Join, redis_url: str, server: redis.Redis) -> None:
    worker = join()
    worker.push("one")
    (lease,) = worker.take(1)
    control(redis_url).pause()
    worker.say(finished=[lease.name], in_hand=0)
    worker.frontier.leave(finished=True, persist=True)
    assert server.exists("s:meta")
    assert join("next").say(want=5).order == Order.CRAWL


def test_a_frontier_that_is_not_there_cannot_be_paused(redis_url: str) -> None:
    with pytest.raises(InspectionError, match="no frontier of spider 's'"):
        control(redis_url)


def test_foreign_values_of_the_order_stop_no_worker(join: Join, server: redis.Redis) -> None:
    worker = join()
    worker.push("one")
    server.hset("s:meta", mapping={"state": "dancing", "stop": "soon", "pages": "many", "exporting": "x"})
    reply = worker.say(want=5, pages=1)
    assert (reply.order, payloads(reply.leases)) == (Order.CRAWL, ["one"])
    assert server.hget("s:meta", "pages") == b"1"


# -- the fleet -------------------------------------------------------------------------------------


def command(redis_url: str, *arguments: str) -> str:
    done = run_python("-m", "scrapy", "frontier", *arguments, redis_url=redis_url)
    assert done.returncode == 0, done.stderr
    return done.stdout


def leased(redis_url: str, spider: str = "graph") -> int:
    return read_status(View.from_settings(Settings({"REDIS_URL": redis_url}), spider)).leased


def crawling(fleet: Fleet, count: int, **settings: object) -> None:
    # However many they are, the crawl lasts for three seconds at least: longer than a command takes.
    fleet.start("graph", count, GRAPH_PAGES=PAGES, GRAPH_LATENCY=0.1 * count, **settings)
    wait_until(lambda: all(fleet.events("parsed", worker) for worker in range(count)))


@pytest.mark.single("its log, and the time that it takes")
@pytest.mark.parametrize(
    "queue",
    ["PriorityQueue", *(pytest.param(name, marks=pytest.mark.long) for name in ("FifoQueue", "LifoQueue"))],
)
def test_a_fleet_that_is_paused_begins_nothing_and_then_goes_on_to_the_end(
    fleet: Fleet, redis_url: str, queue: str
) -> None:
    crawling(fleet, 2, SCHEDULER_QUEUE_CLASS=f"scrapy_rq_sched.{queue}")
    assert "2 workers will begin no page" in command(redis_url, "pause", "graph")
    wait_until(lambda: leased(redis_url) == 0, message="something is still leased")
    downloaded = len(fleet.events("downloaded"))
    status = read_status(View.from_settings(Settings({"REDIS_URL": redis_url}), "graph"))
    assert (status.state, status.alive) == ("paused", 2)
    assert status.waiting > 0
    # They are heard of all the time, and begin nothing.
    heard = {worker.name: worker.heard for worker in status.workers}

    def all_heard_again() -> bool:
        again = read_status(View.from_settings(Settings({"REDIS_URL": redis_url}), "graph")).workers
        return len(again) == 2 and all(worker.heard > heard[worker.name] + 1 for worker in again)

    wait_until(all_heard_again)
    assert len(fleet.events("downloaded")) == downloaded
    command(redis_url, "resume", "graph")
    fleet.wait()
    assert fleet.reasons() == ["finished", "finished"]
    assert len(fleet.urls("parsed")) == PAGES
    assert set(fleet.urls("parsed").values()) == {1}


@pytest.mark.single("its log, and the time that it takes")
@pytest.mark.long
def test_a_fleet_that_is_drained_and_stopped_loses_and_repeats_nothing(fleet: Fleet, redis_url: str) -> None:
    crawling(fleet, 2)
    assert "will finish the requests in hand" in command(redis_url, "drain", "graph")
    wait_until(lambda: leased(redis_url) == 0)
    assert "2 workers will close" in command(redis_url, "stop", "graph")
    fleet.wait()
    assert fleet.reasons() == ["stopped", "stopped"]
    command(redis_url, "resume", "graph")
    fleet.start("graph", GRAPH_PAGES=PAGES)
    fleet.wait()
    assert fleet.reasons()[2:] == ["finished"]
    assert len(fleet.urls("parsed")) == PAGES
    assert set(fleet.urls("downloaded").values()) == {1}


@pytest.mark.single("its log, and the time that it takes")
def test_one_worker_is_stopped_and_the_others_crawl_its_requests(fleet: Fleet, redis_url: str) -> None:
    crawling(fleet, 2)
    first, _ = (
        json.loads(line)["name"] for line in command(redis_url, "workers", "graph", "--json").splitlines()
    )
    assert f"Worker {first} of spider graph will close" in command(
        redis_url, "stop", "graph", "--worker", first
    )
    fleet.wait()
    assert sorted(fleet.reasons()) == ["finished", "stopped"]
    assert len(fleet.urls("parsed")) == PAGES
    assert set(fleet.urls("parsed").values()) == {1}


@pytest.mark.single("its log, and the time that it takes")
@pytest.mark.long
def test_a_stopped_fleet_leaves_the_rest_to_workers_that_start_later(fleet: Fleet, redis_url: str) -> None:
    crawling(fleet, 3)
    assert "3 workers will close" in command(redis_url, "stop", "graph")
    fleet.wait()
    assert fleet.reasons() == ["stopped"] * 3
    assert leased(redis_url) == 0
    fleet.start("graph", GRAPH_PAGES=PAGES)
    fleet.wait()
    assert len(fleet.urls("parsed")) == PAGES
    assert set(fleet.urls("parsed").values()) == {1}


@pytest.mark.long
@pytest.mark.single("its log, and the time that it takes")
def test_requests_in_a_workers_memory_wait_during_a_pause_and_are_crawled_by_a_drain(
    fleet: Fleet, redis_url: str
) -> None:
    fleet.start("hoard", GRAPH_LATENCY=0.2, CONCURRENT_REQUESTS=2)
    wait_until(lambda: fleet.events("parsed"))
    command(redis_url, "pause", "hoard")
    wait_until(lambda: "is paused" in fleet.log())
    wait_until(lambda: len(fleet.events("downloaded")) == len(fleet.events("parsed")) + 1)
    assert len(fleet.events("parsed")) < 60
    command(redis_url, "drain", "hoard")
    fleet.wait()
    assert fleet.reasons() == ["finished"]
    assert len(fleet.urls("parsed")) == 60


@pytest.mark.skipif(
    version_info < (2, 14), reason="a pipeline's open_spider is not awaited before Scrapy 2.14"
)
@pytest.mark.single("its log, and the time that it takes")
def test_a_worker_that_is_still_opening_is_stopped_when_it_is_open(fleet: Fleet, redis_url: str) -> None:
    pipelines = '{"crawls.spiders.SlowOpenPipeline": 1}'
    fleet.start("graph", GRAPH_PAGES=PAGES, GRAPH_LATENCY=0.1, ITEM_PIPELINES=pipelines)
    view = View.from_settings(Settings({"REDIS_URL": redis_url}), "graph")
    wait_until(lambda: fleet.events("opening") and read_status(view).alive == 1)
    command(redis_url, "stop", "graph")
    fleet.wait()
    assert fleet.reasons() == ["stopped"]
    assert "Traceback" not in fleet.log()


@pytest.mark.single("its log, and the time that it takes")
@pytest.mark.parametrize("event_loop", ["select", "none"])
def test_an_idle_worker_on_another_event_loop_stops_cleanly(
    fleet: Fleet, redis_url: str, event_loop: str
) -> None:
    fleet.start("seeds", environment={"EVENT_LOOP": event_loop})
    view = View.from_settings(Settings({"REDIS_URL": redis_url}), "seeds")
    wait_until(lambda: read_status(view).state == "idle")
    command(redis_url, "stop", "seeds")
    fleet.wait(10)
    assert fleet.reasons() == ["stopped"]
    assert "CRITICAL" not in fleet.log()
    assert "Traceback" not in fleet.log()


@pytest.mark.single("its log, and the time that it takes")
def test_workers_of_a_cleared_frontier_come_to_an_end_and_leave_nothing(
    fleet: Fleet, redis_url: str, server: redis.Redis
) -> None:
    crawling(fleet, 2)
    command(redis_url, "clear", "graph", "--force", "--yes")
    fleet.wait()
    assert fleet.reasons() == ["finished", "finished"]
    assert len(fleet.urls("parsed")) < PAGES
    assert [key for key in server.scan_iter() if server.ttl(key) < 0] == []


def test_nothing_is_popped_from_a_queue_of_ones_own_while_the_crawl_is_paused(
    join: Join, redis_url: str
) -> None:
    class Queue(list[str]):
        pass

    queue = Queue("abc")
    waiting = join("a").frontier
    frontier = CustomQueueFrontier(queue, waiting.server, waiting.keys, "p")
    frontier.open({"SCHEDULER_SERIALIZER": "json"})
    control(redis_url).pause()
    assert frontier.exchange(Batch(1, want=2)).popped == ()
    control(redis_url).resume()
    assert frontier.exchange(Batch(2, want=2)).popped == ("c", "b")


@pytest.mark.single("its log, and the time that it takes")
def test_an_idle_worker_that_waits_for_seeds_stops_when_it_is_told(fleet: Fleet, redis_url: str) -> None:
    fleet.start("seeds", 2)
    view = View.from_settings(Settings({"REDIS_URL": redis_url}), "seeds")
    wait_until(lambda: read_status(view).alive == 2)
    command(redis_url, "stop", "seeds")
    fleet.wait(10)
    assert fleet.reasons() == ["stopped", "stopped"]


@pytest.mark.single("its log, and the time that it takes")
@pytest.mark.long
def test_start_waits_while_the_crawl_is_paused(fleet: Fleet, redis_url: str, server: redis.Redis) -> None:
    crawling(fleet, 1)
    command(redis_url, "pause", "graph")
    wait_until(lambda: leased(redis_url) == 0)
    fleet.start("graph", GRAPH_PAGES=PAGES)
    wait_until(lambda: "is paused" in fleet.log(1))
    assert "this worker begins no page. To resume, run: scrapy frontier resume graph" in fleet.log(1)
    command(redis_url, "resume", "graph")
    fleet.wait()
    assert len(fleet.urls("parsed")) == PAGES
