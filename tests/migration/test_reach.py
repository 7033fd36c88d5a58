"""Where a project on scrapy-redis reaches in: classes and methods of its own, on both packages."""

from __future__ import annotations

import pytest

from . import site
from .copies import OURS, Project

PAGES = site.CATEGORIES + site.PRODUCTS

# Each test has one expectation for both, but where it says otherwise.


def test_a_queue_with_push_pop_and_len_alone_is_crawled_from(project: Project) -> None:
    log = project.start("sitemap", "-s", "SCHEDULER_QUEUE_CLASS=shop.queues.BareQueue")
    project.wait()
    assert sum(project.items("sitemap:items").values()) == PAGES, log.read_text()
    assert not project.has_raised(log)


def test_a_log_of_duplicates_may_use_the_logger_of_its_class(project: Project) -> None:
    dupefilter = "DUPEFILTER_CLASS=shop.dupefilter.TellingDupeFilter"
    log = project.start("sitemap", "-s", dupefilter, "-s", "CONCURRENT_ITEMS=1")
    project.wait()
    assert sum(project.items("sitemap:items").values()) == PAGES
    assert "Known already: " in log.read_text()
    assert not project.has_raised(log)


@pytest.mark.parametrize("project", [OURS], indirect=True)  # with scrapy-redis the crawl hangs
def test_a_log_of_duplicates_that_raises_is_told_of_once_and_the_crawl_goes_on(project: Project) -> None:
    dupefilter = "DUPEFILTER_CLASS=shop.dupefilter.FaultyDupeFilter"
    log = project.start("sitemap", "-s", dupefilter, "-s", "CONCURRENT_ITEMS=1")
    project.wait()
    assert sum(project.items("sitemap:items").values()) == PAGES
    assert log.read_text().count("FaultyDupeFilter cannot log a duplicate: its log() raised") == 1
    assert log.read_text().count("KeyError: 'no such field'") == 1
