"""The order in which a worker begins its first start requests."""

from __future__ import annotations

from ..support.crawl import Fleet


def test_the_first_start_requests_are_begun_in_the_order_of_start(fleet: Fleet) -> None:
    settings = {"SPIDER_MODULES": "crawls.start_order", "CONCURRENT_REQUESTS": 1}
    # The other requests are read while the first one is downloaded.
    fleet.start("startorder", 1, GRAPH_LATENCY=0.3, **settings)
    fleet.wait()
    assert [event.what.rpartition("/")[2] for event in fleet.events("downloaded")] == list("123456")


def test_a_lazy_start_is_read_no_further_than_the_downloader_has_room(fleet: Fleet) -> None:
    fleet.start("lazystart", 1, SPIDER_MODULES="crawls.start_order", CONCURRENT_REQUESTS=5, GRAPH_LATENCY=0.5)
    fleet.wait()
    assert len(fleet.events("downloaded")) == 20
    assert fleet.events("full")[0].what == "5"
