"""Crawls in which every warning is an error."""

from __future__ import annotations

import pytest
import redis

from ..project.crawls.graph import page_url
from ..support.crawl import Fleet, run_python
from .test_reactors import without_reactor

IMPORT_ALL = """
import importlib, pkgutil, scrapy_rq_sched
for module in pkgutil.walk_packages(scrapy_rq_sched.__path__, "scrapy_rq_sched."):
    importlib.import_module(module.name)
"""


def run(*arguments: str, fleet: Fleet, event_loop: str = "asyncio") -> None:
    """Run the interpreter, and see that it warned of nothing."""
    # In the development mode what is not closed, and what asyncio finds odd, is a warning, too.
    options = ("-X", "dev", "-W", "error")
    environment = {"RECORD": str(fleet.record), "EVENT_LOOP": event_loop}
    done = run_python(*options, *arguments, redis_url=fleet.redis_url, **environment)
    assert done.returncode == 0, done.stderr
    # Where nobody can catch an error, as in a destructor or another thread, it is only written.
    for sign in ("Warning", "Traceback", "Exception ignored"):
        assert sign not in done.stderr, done.stderr


def test_our_modules_are_imported_without_a_warning(fleet: Fleet) -> None:
    run("-c", IMPORT_ALL, fleet=fleet)


@pytest.mark.parametrize(
    "event_loop", ["asyncio", pytest.param("none", marks=[without_reactor, pytest.mark.long])]
)
def test_a_crawl_warns_of_nothing(fleet: Fleet, event_loop: str) -> None:
    arguments = ["crawl", "graph", "-s", "GRAPH_PAGES=100"]
    run("-m", "scrapy", *arguments, fleet=fleet, event_loop=event_loop)
    assert fleet.reasons() == ["finished"]


@pytest.mark.long
def test_a_spider_with_seeds_warns_of_nothing(fleet: Fleet, server: redis.Redis) -> None:
    server.rpush("seeds:start_urls", page_url(1))
    run("-m", "scrapy", "crawl", "seeds", "-s", "MAX_IDLE_TIME_BEFORE_CLOSE=0.5", fleet=fleet)
    assert fleet.urls("parsed") == {page_url(1): 1}


def test_a_command_that_keeps_out_of_the_frontier_warns_of_nothing(fleet: Fleet) -> None:
    run("-m", "scrapy", "fetch", "--spider", "graph", page_url(7), fleet=fleet)
