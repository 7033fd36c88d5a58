"""Projects with scrapy-playwright and scrapy-poet: what their users put into requests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from ..dashboard.browser import BROWSER_ARGUMENTS, found
from ..project.crawls.graph import links_of, page_url
from ..support.crawl import Fleet
from ..support.site import served


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


def test_page_params_go_through_redis_and_tell_requests_apart(poet_meta: Fleet) -> None:
    assert poet_meta.urls("params") == {f"{page_url(5)} 1": 1, f"{page_url(5)} 2": 1}
    assert "page_params" not in poet_meta.log()


def test_a_callback_that_needs_no_download_has_none(poet_meta: Fleet) -> None:
    assert page_url(5) not in poet_meta.urls("downloaded")


def test_a_class_to_inject_is_crawled_from_memory_and_named(poet_meta: Fleet) -> None:
    assert poet_meta.urls("injected") == {page_url(6): 1}
    assert "meta['inject'][0] is an ABCMeta" in poet_meta.log()


def test_a_page_object_that_asks_for_a_retry_gets_it(poet_meta: Fleet) -> None:
    assert poet_meta.urls("item") == {page_url(7): 1}
    assert poet_meta.urls("downloaded")[page_url(7)] == 2


def test_options_for_the_browser_go_through_redis_unchanged(fleet: Fleet) -> None:
    from ..project.crawls.playwright import OPTIONS

    fleet.start("playwright", SPIDER_MODULES="crawls.playwright")
    fleet.wait()
    assert fleet.urls("parsed") == {f"{page_url(number)} {json.dumps(OPTIONS)}": 1 for number in (0, 1)}
    assert fleet.stat("scheduler/enqueued/redis") == 2


def test_a_page_that_is_handed_on_is_crawled_from_memory_and_named(fleet: Fleet) -> None:
    fleet.start("page", SPIDER_MODULES="crawls.playwright")
    fleet.wait()
    assert fleet.urls("page") == {f"{page_url(2)} Page": 1}
    assert "meta['playwright_page'] is a Page" in fleet.log()
    assert fleet.stat("scheduler/unserializable") == 1


@pytest.mark.parametrize(("serializer", "unserializable"), [("json", 1), ("pickle", 0)])
def test_page_methods_are_kept_in_redis_by_pickle_only(
    fleet: Fleet, serializer: str, unserializable: int
) -> None:
    fleet.start("methods", SPIDER_MODULES="crawls.playwright", SCHEDULER_SERIALIZER=serializer)
    fleet.wait()
    assert fleet.urls("methods") == {f"{page_url(1)} wait_for_selector ('div.quote',) {{'timeout': 5}}": 1}
    assert fleet.stat("scheduler/unserializable") == unserializable
    assert ("meta['playwright_page_methods'][0] is a PageMethod" in fleet.log()) == bool(unserializable)


#: Its heading is there when its script has run.
PAGE = """<h1></h1><script>document.querySelector("h1").textContent = "page {}"</script>{}"""


def test_each_page_is_opened_once_in_the_browsers_of_two_workers(fleet: Fleet, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    links = {0: (1, 2), 1: (2, 3), 2: (0, 3), 3: ()}
    for number, linked in links.items():
        anchors = "".join(f"<a href=/{other}.html></a>" for other in linked)
        (folder / f"{number}.html").write_text(PAGE.format(number, anchors))
    with sync_playwright() as playwright:
        options = {"executable_path": found(playwright), "args": BROWSER_ARGUMENTS}
    settings = {"PLAYWRIGHT_LAUNCH_OPTIONS": json.dumps(options), "SPIDER_MODULES": "crawls.playwright"}
    with served(folder, 0) as site:
        site.gate.set()
        fleet.start("browser", 2, "-a", f"site={site.url}/0.html", **settings)
        fleet.wait()
        assert fleet.urls("parsed") == {f"{site.url}/{number}.html page {number}": 1 for number in links}
    assert fleet.reasons() == ["finished", "finished"]
    assert fleet.stat("scheduler/unserializable") == 0
