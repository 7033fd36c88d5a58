"""The history of crawls with real workers: one entry for each crawl, with the figures of its record."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.inspect import View, read_status
from scrapy_rq_sched.inspect.crawl import Crawl
from scrapy_rq_sched.inspect.crawls import Crawls
from scrapy_rq_sched.inspect.explain import Explainer
from scrapy_rq_sched.inspect.operations.orders import Control

from ..support.crawl import Fleet, run_python, wait_until

PAGES = 120
#: A lease that ends soon after a death.
LEASE = {"FRONTIER_LEASE_TIMEOUT": 2}

View_ = Callable[..., View]


@pytest.fixture
def view(redis_url: str) -> View_:
    def make(spider: str = "pages", **settings: str) -> View:
        return View.from_settings(Settings({"REDIS_URL": redis_url, **settings}), spider)

    return make


def crawls(view: View) -> list[Crawl]:
    found = Crawls(view)
    return list(found.read(found.numbers(), with_charts=True))


def start(fleet: Fleet, count: int = 1, **settings: object) -> None:
    fleet.start("pages", count, GRAPH_PAGES=PAGES, **{**LEASE, **settings})


def has_begun(fleet: Fleet, pages: int = 20) -> Callable[[], bool]:
    return lambda: len(fleet.events("downloaded")) >= pages


def test_a_finished_crawl_has_the_figures_of_its_record(fleet: Fleet, view: View_) -> None:
    start(fleet, 2, GRAPH_LATENCY=0.02)
    fleet.wait()
    (found,) = crawls(view())
    downloads = len(fleet.events("downloaded"))
    assert (found.state, found.pages, found.items) == ("finished", PAGES, PAGES)
    assert (found.counts["responses"], found.statuses) == (downloads, {"200": downloads})
    assert sum(worker.counts["responses"] for worker in found.workers) == downloads
    assert [worker.how for worker in found.workers] == ["left", "left"]
    assert sum(moment.items for moment in found.history) == PAGES
    assert found.seconds < 60


def test_a_very_short_crawl_has_its_figures(fleet: Fleet, view: View_) -> None:
    fleet.start("pages", GRAPH_PAGES=1)
    fleet.wait()
    (found,) = crawls(view())
    assert (found.pages, found.items, found.statuses) == (1, 1, {"200": 1})


def test_an_interrupted_crawl_that_goes_on_has_one_entry(fleet: Fleet, view: View_) -> None:
    start(fleet, GRAPH_LATENCY=0.05)
    wait_until(has_begun(fleet))
    fleet.kill(0, signal.SIGTERM)
    fleet.wait()
    (stopped,) = crawls(view())
    assert (stopped.state, 0 < stopped.pages < PAGES) == ("stopped", True)
    start(fleet)
    fleet.wait()
    (found,) = crawls(view())
    assert (found.run, found.state, found.pages, found.items, found.joined) == (
        1,
        "finished",
        PAGES,
        PAGES,
        2,
    )


def test_a_crawl_of_killed_workers_has_one_entry(fleet: Fleet, view: View_) -> None:
    start(fleet, 2, GRAPH_LATENCY=0.05)
    wait_until(has_begun(fleet, 40))
    for worker in (0, 1):
        fleet.kill(worker)
    current = Crawls(view()).current(read_status(view()).state)
    assert current is not None
    assert 0 < current.pages <= len(fleet.events("downloaded"))
    start(fleet)
    fleet.wait(workers=[2])
    (found,) = crawls(view())
    assert (found.run, found.state, found.joined, found.lost) == (1, "finished", 3, 2)
    assert found.pages == found.items
    # A page is counted twice if its worker died between its end and its release.
    assert PAGES <= found.pages <= PAGES + 4


@pytest.mark.parametrize("how", ["flush", "flushdb"])
def test_a_crawl_after_a_wiped_one_has_its_own_entry(
    fleet: Fleet, view: View_, server: redis.Redis, how: str
) -> None:
    start(fleet, GRAPH_LATENCY=0.05)
    wait_until(has_begun(fleet))
    fleet.kill(0, signal.SIGTERM)
    fleet.wait()
    if how == "flushdb":
        server.flushdb()
    start(fleet, SCHEDULER_FLUSH_ON_START=True)
    fleet.wait()
    found = [(one.run, one.state) for one in crawls(view())]
    assert found == ([(2, "finished"), (1, "cleared")] if how == "flush" else [(1, "finished")])
    assert crawls(view())[0].pages == PAGES


@pytest.mark.slow
def test_a_worker_that_is_stopped_for_longer_than_its_lease_counts_once(fleet: Fleet, view: View_) -> None:
    start(fleet, 2, GRAPH_LATENCY=0.05)
    wait_until(has_begun(fleet, 40))
    fleet.kill(0, signal.SIGSTOP)
    wait_until(lambda: any(not worker.alive for worker in read_status(view()).workers), 20)
    fleet.kill(0, signal.SIGCONT)
    fleet.wait()
    (found,) = crawls(view())
    assert (found.state, found.joined) == ("finished", 2)
    assert found.counts["responses"] == len(fleet.events("downloaded"))


def test_a_paused_crawl_is_under_way_in_the_history(fleet: Fleet, view: View_) -> None:
    start(fleet, GRAPH_LATENCY=0.05)
    wait_until(has_begun(fleet))
    Control(view()).pause()
    wait_until(lambda: read_status(view()).state == "paused")
    current = Crawls(view()).current("paused")
    assert current is not None
    assert (current.run, current.state) == (1, "paused")
    assert crawls(view()) == []
    Control(view()).resume()
    fleet.wait()
    assert [one.state for one in crawls(view())] == ["finished"]


def test_two_jobs_at_once_have_an_entry_each(fleet: Fleet, view: View_) -> None:
    keys = {
        "SCHEDULER_QUEUE_KEY": "%(spider)s:%(job)s:requests",
        "SCHEDULER_DUPEFILTER_KEY": "%(spider)s:%(job)s:seen",
    }
    for job in ("one", "two"):
        start(fleet, FRONTIER_JOB=job, **keys)
    fleet.wait()
    for job in ("one", "two"):
        (found,) = crawls(view(FRONTIER_JOB=job, **keys))
        assert (found.state, found.pages, found.settings["FRONTIER_JOB"]) == ("finished", PAGES, job)


def test_a_url_is_explained_after_the_end(fleet: Fleet, view: View_, tmp_path: Path) -> None:
    start(fleet, LOG_FILE=str(tmp_path / "the.log"))
    fleet.wait()
    (url, *_) = fleet.urls("downloaded")
    (found,) = Explainer(view()).explain(url).outcomes
    assert (found.status, found.log) == (200, str(tmp_path / "the.log"))
    assert Explainer(view()).explain("http://graph.test/none").knows_all


def test_a_failed_url_is_explained_after_the_end(fleet: Fleet, view: View_) -> None:
    fleet.start("raising", GRAPH_PAGES=5, FRONTIER_SET_ASIDE="callback")
    fleet.wait()
    failed = Crawls(view("raising"))
    (crawl,) = failed.read(failed.numbers())
    assert crawl.failed
    url = next(iter(fleet.urls("downloaded")))
    found = Explainer(view("raising")).explain(url)
    assert found.failed
    assert (found.outcomes[-1].has_raised, found.outcomes[-1].is_set_aside) == (True, True)


def test_the_command_lists_compares_and_shows_crawls(fleet: Fleet, redis_url: str) -> None:
    for pages in (PAGES, 50):
        fleet.start("pages", GRAPH_PAGES=pages)
        fleet.wait()
    listed = run_python("-m", "scrapy", "frontier", "history", "pages", redis_url=redis_url)
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["RUN", "2", "1"]
    assert "50 (-58 %)" in listed.stdout
    one = run_python("-m", "scrapy", "frontier", "history", "pages", "last", redis_url=redis_url)
    assert "50, 58 % fewer than the last time" in one.stdout
    everywhere = run_python("-m", "scrapy", "frontier", "history", redis_url=redis_url)
    assert everywhere.stdout.splitlines()[1].startswith("pages")
    missing = run_python("-m", "scrapy", "frontier", "history", "pages", "7", redis_url=redis_url)
    assert missing.returncode == 1
    assert "has no crawl 7. It has 1 to 2" in missing.stderr
