"""Projects with scrapy-playwright and scrapy-poet: what their users put into requests."""

from __future__ import annotations

import importlib.util
import json

import pytest

from ..crawl import Fleet
from ..project.crawls.graph import links_of, page_url


def needs(module: str, package: str) -> pytest.MarkDecorator:
    installed = importlib.util.find_spec(module) is not None
    return pytest.mark.skipif(not installed, reason=f"{package} is not installed")


needs_poet = needs("scrapy_poet", "scrapy-poet")
needs_playwright = needs("scrapy_playwright", "scrapy-playwright")


@needs_poet
def test_each_page_is_crawled_once_for_each_of_two_page_objects(fleet: Fleet) -> None:
    fleet.start("poet", 2, GRAPH_PAGES=100, GRAPH_LATENCY=0.02, SPIDER_MODULES="crawls.poet")
    fleet.wait()
    assert fleet.urls("parsed") == {page_url(number): 1 for number in range(100)}
    linked = {link for number in range(100) for link in links_of(number, 100)}
    assert fleet.urls("item") == {page_url(number): 1 for number in linked}
    assert fleet.reasons() == ["finished", "finished"]
    assert fleet.stat("scheduler/unserializable") == 0


@pytest.fixture
def poet_meta(fleet: Fleet) -> Fleet:
    """A crawl that is over, of a spider which puts into the meta what scrapy-poet reads there."""
    fleet.start("poetmeta", SPIDER_MODULES="crawls.poet")
    fleet.wait()
    assert fleet.reasons() == ["finished"]
    return fleet


@needs_poet
def test_page_params_go_through_redis_and_tell_requests_apart(poet_meta: Fleet) -> None:
    assert poet_meta.urls("params") == {f"{page_url(5)} 1": 1, f"{page_url(5)} 2": 1}
    assert "page_params" not in poet_meta.log()


@needs_poet
def test_a_callback_that_needs_no_download_has_none(poet_meta: Fleet) -> None:
    assert page_url(5) not in poet_meta.urls("downloaded")


@needs_poet
def test_a_class_to_inject_is_crawled_from_memory_and_named(poet_meta: Fleet) -> None:
    assert poet_meta.urls("injected") == {page_url(6): 1}
    assert "meta['inject'][0] is a ABCMeta" in poet_meta.log()


@needs_poet
def test_a_page_object_that_asks_for_a_retry_gets_it(poet_meta: Fleet) -> None:
    assert poet_meta.urls("item") == {page_url(7): 1}
    assert poet_meta.urls("downloaded")[page_url(7)] == 2


@needs_playwright
def test_options_for_the_browser_go_through_redis_unchanged(fleet: Fleet) -> None:
    from ..project.crawls.playwright import OPTIONS

    fleet.start("playwright", SPIDER_MODULES="crawls.playwright")
    fleet.wait()
    assert fleet.urls("parsed") == {f"{page_url(number)} {json.dumps(OPTIONS)}": 1 for number in (0, 1)}
    assert fleet.stat("scheduler/enqueued/redis") == 2


@needs_playwright
def test_a_page_that_is_handed_on_is_crawled_from_memory_and_named(fleet: Fleet) -> None:
    fleet.start("page", SPIDER_MODULES="crawls.playwright")
    fleet.wait()
    assert fleet.urls("page") == {f"{page_url(2)} Page": 1}
    assert "meta['playwright_page'] is a Page" in fleet.log()
    assert fleet.stat("scheduler/unserializable") == 1


@needs_playwright
@pytest.mark.parametrize(("serializer", "unserializable"), [("json", 1), ("pickle", 0)])
def test_page_methods_are_kept_in_redis_by_pickle_only(
    fleet: Fleet, serializer: str, unserializable: int
) -> None:
    fleet.start("methods", SPIDER_MODULES="crawls.playwright", SCHEDULER_SERIALIZER=serializer)
    fleet.wait()
    assert fleet.urls("methods") == {f"{page_url(1)} wait_for_selector ('div.quote',) {{'timeout': 5}}": 1}
    assert fleet.stat("scheduler/unserializable") == unserializable
    assert ("meta['playwright_page_methods'][0] is a PageMethod" in fleet.log()) == bool(unserializable)
