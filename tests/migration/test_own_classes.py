"""Dupefilters and schedulers that a project or a package on PyPI derives from scrapy-redis's classes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from . import site
from .copies import OURS, Project

PAGES = site.CATEGORIES + site.PRODUCTS
only_ours = pytest.mark.parametrize("project", [OURS], indirect=True)


def crawl(project: Project, **settings: str) -> tuple[int, str]:
    """Crawl the shop with these settings; return the exit code and the log."""
    log: Path = project.start("sitemap", *(f"-s{name}={value}" for name, value in settings.items()))
    project.wait()
    return project.running[-1].wait(0), log.read_text()


def pages(project: Project) -> int:
    return sum(project.items("sitemap:items").values())


# -- dupefilters -------------------------------------------------------------------------------------


def test_the_key_that_from_spider_gives_to_a_dupefilter_is_used(project: Project) -> None:
    code, log = crawl(project, DUPEFILTER_CLASS="shop.dupefilter.OwnKeyDupeFilter")
    assert (code, pages(project)) == (0, PAGES), log
    assert project.server.scard("shop:sitemap:seen") >= PAGES
    assert not project.server.exists("sitemap:dupefilter")


@only_ours
@pytest.mark.parametrize(
    ("dupefilter", "seen"),
    [("OwnKeyDupeFilter", PAGES + 1), ("BitsOfPagesDupeFilter", 0)],
    ids=["set", "bits"],
)
def test_scrapy_frontier_finds_the_key_of_a_dupefilters_own(
    project: Project, dupefilter: str, seen: int
) -> None:
    crawl(project, DUPEFILTER_CLASS=f"shop.dupefilter.{dupefilter}")
    status = json.loads(project.run("-m", "scrapy", "frontier", "status", "sitemap", "--json"))
    assert status["seen"] == seen, status


@only_ours
def test_a_key_of_a_dupefilters_own_is_deleted_when_the_crawl_is_finished(project: Project) -> None:
    for _ in range(2):
        project.server.delete("sitemap:items")
        crawl(project, DUPEFILTER_CLASS="shop.dupefilter.OwnKeyDupeFilter", SCHEDULER_PERSIST="False")
        assert pages(project) == PAGES
        assert not project.server.exists("shop:sitemap:seen")


def test_the_arguments_that_from_spider_gives_to_a_dupefilter_reach_it(project: Project) -> None:
    code, log = crawl(project, DUPEFILTER_CLASS="shop.dupefilter.SaltedDupeFilter", SALT="pepper")
    assert (code, pages(project)) == (0, PAGES), log
    assert all(entry.startswith(b"pepper") for entry in project.server.smembers("sitemap:dupefilter"))


@only_ours
def test_a_dupefilter_that_cannot_be_made_is_refused_in_one_line(project: Project) -> None:
    code, log = crawl(project, DUPEFILTER_CLASS="shop.dupefilter.UnmakeableDupeFilter")
    assert code == 1
    assert "Traceback" not in log
    assert "The crawl cannot start: DUPEFILTER_CLASS is 'shop.dupefilter.UnmakeableDupeFilter'" in log


def test_the_dupefilter_of_another_package_is_shared_and_kept(project: Project) -> None:
    settings = {"DUPEFILTER_CLASS": "shop.dupefilter.BitsOfPagesDupeFilter"}
    code, log = crawl(project, CLOSESPIDER_PAGECOUNT="5", **settings)
    assert code == 0, log
    assert project.server.strlen("sitemap:bits")
    code, log = crawl(project, **settings)
    assert (code, pages(project)) == (0, PAGES), log
    assert project.server.strlen("sitemap:bits")


@only_ours
def test_the_dupefilter_of_another_package_lets_the_next_crawl_begin_anew(project: Project) -> None:
    for _ in range(2):
        project.server.delete("sitemap:items")
        settings = {"DUPEFILTER_CLASS": "shop.dupefilter.BitsOfPagesDupeFilter"}
        crawl(project, SCHEDULER_PERSIST="False", **settings)
        assert pages(project) == PAGES
        assert not project.server.exists("sitemap:bits")


# -- schedulers --------------------------------------------------------------------------------------


@only_ours
@pytest.mark.parametrize("name", ["ClosedScheduler", "BitsOfPagesScheduler"])
def test_a_scheduler_with_an_open_that_does_not_join_is_refused_in_one_line(
    project: Project, name: str
) -> None:
    code, log = crawl(project, SCHEDULER=f"shop.schedulers.{name}")
    assert code == 1
    assert "Traceback" not in log
    assert f"The crawl cannot start: shop.schedulers.{name}.open() does not call super().open(spider)" in log
    assert "Spider closed (frontier_error)" in log


@only_ours
def test_a_scheduler_with_the_constructor_of_scrapy_redis_is_refused_in_one_line(project: Project) -> None:
    code, log = crawl(project, SCHEDULER="shop.schedulers.LimitedScheduler")
    assert code == 1
    assert "Traceback" not in log
    assert "The crawl cannot start: shop.schedulers.LimitedScheduler cannot be instantiated" in log


# -- the one line ------------------------------------------------------------------------------------


def test_the_names_of_packages_that_build_on_scrapy_redis_stay(project: Project) -> None:
    assert "from scrapy_redis_bits.dupefilter import" in (project.folder / "shop/dupefilter.py").read_text()
