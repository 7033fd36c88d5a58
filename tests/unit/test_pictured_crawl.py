"""The site of the crawl that the pictures show, and its settings."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

import pytest
from scrapy.settings import Settings

from scrapy_rq_sched.settings import FrontierSettings

from ..tools.pictured_crawl import BLOCK, DEATH, HOSTS, JOINS, OVERLOADED, SETTINGS, SUCCESSOR, site_pages

#: To render all shops takes some seconds.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def responses() -> dict[str, bytes]:
    return {url: response for url, (_, response) in site_pages().items()}


def test_each_shop_has_a_home_page_that_never_fails(responses: dict[str, bytes]) -> None:
    homes = [responses[f"http://{host}/"] for host in HOSTS]
    assert all(home.startswith(b"HTTP/1.1 200") for home in homes)


def test_only_the_overloaded_host_answers_with_503(responses: dict[str, bytes]) -> None:
    hosts = {urlsplit(url).hostname for url, response in responses.items() if b" 503 " in response[:40]}
    assert hosts == {OVERLOADED}


def test_some_pages_make_their_callback_raise(responses: dict[str, bytes]) -> None:
    without_title = [url for url, response in responses.items() if b"<title>" not in response]
    assert 5 < len(without_title) < len(responses) / 50


def test_the_settings_of_the_workers_are_valid() -> None:
    settings = FrontierSettings.from_settings(Settings(SETTINGS))
    assert settings.set_aside == {"callback", "download"}
    assert set(json.loads(SETTINGS["FRONTIER_SLOTS"])) < set(HOSTS)


def test_the_second_worker_is_killed_between_the_joins_and_the_picture() -> None:
    assert list(JOINS) == sorted(JOINS)
    assert JOINS[-1] < DEATH < SUCCESSOR < BLOCK < 1
