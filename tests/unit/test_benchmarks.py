"""What the benchmarks say of their figures; the figures themselves are not the tests' business."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scrapy.http import TextResponse

from benchmarks import __main__, items, report
from benchmarks.arena import MEMORY, OURS, PEER, Contender
from benchmarks.figures import Figures
from benchmarks.project.bench import spiders
from benchmarks.project.bench.site import links_of, number_of, page_url
from benchmarks.report import Results
from benchmarks.targets import targets


def crawl_figures(ours: float, commands: float = 0.04) -> Figures:
    figures = Figures()
    for pace in (100.0, 200.0, 400.0):  # the machine has become faster between the rounds
        figures.add(MEMORY, pages_per_second=pace)
        figures.add(OURS, pages_per_second=ours * pace)
        figures.add(PEER, pages_per_second=0.5 * pace)
    figures.add(OURS, commands=commands)
    return figures


@pytest.mark.parametrize(("ours", "verdict"), [(1.0, "met"), (1.2, "met"), (0.99, "**not met**")])
def test_a_target_of_at_least_so_much_is_met_from_there_on(ours: float, verdict: str) -> None:
    loopback = targets({"crawl": crawl_figures(ours)})[0]
    assert (loopback.verdict, loopback.ours, loopback.peer) == (verdict, pytest.approx(ours), 0.5)


@pytest.mark.parametrize(("commands", "verdict"), [(0.05, "met"), (0.051, "**not met**")])
def test_a_target_of_at_most_so_much_is_met_up_to_there(commands: float, verdict: str) -> None:
    (target,) = [
        t for t in targets({"crawl": crawl_figures(1.0, commands)}) if t.what.startswith("client commands")
    ]
    assert target.verdict == verdict


def test_a_target_without_a_measurement_is_not_called_met() -> None:
    assert {target.verdict for target in targets({})} == {"not measured"}


def test_a_ratio_is_formed_within_each_round() -> None:
    figures = Figures()
    for memory, ours in ((100.0, 90.0), (1000.0, 900.0), (10.0, 20.0)):
        figures.add(MEMORY, pages_per_second=memory)
        figures.add(OURS, pages_per_second=ours)
    assert figures.ratio(OURS, MEMORY, "pages_per_second") == pytest.approx(0.9)


def test_figures_are_the_same_when_they_are_written_and_read(tmp_path: Path) -> None:
    results = Results({"growing": crawl_figures(0.5)}, {"growing": "some day"})
    results.write(tmp_path)
    again = Results.read(tmp_path / "benchmarks.json")
    assert again == results
    assert "| scrapy-rq-sched | 100 (50 to 200) | 0.500 (0.500 to 0.500) |" in again.page()


def test_each_workload_has_a_table() -> None:
    assert list(__main__.WORKLOADS) == list(report.WORKLOADS)


def test_the_targets_of_items_are_found_in_the_figures_of_the_workload() -> None:
    figures = Figures()
    for way in items.WAYS:
        figures.add(f"{OURS}, {way}", of_file=0.97, more_redis_us=10.0)
    found = [target for target in targets({"items": figures}) if target.ours is not None]
    assert [target.verdict for target in found] == ["met"] * 6


def test_an_item_has_the_size_that_it_is_asked_for() -> None:
    spider = spiders.ItemsSpider(size="2000")
    item = next(spider.parse(TextResponse(page_url(12), body=b"", encoding="utf-8")))
    assert len(json.dumps(item)) == 2000


def test_a_contender_is_named_by_its_own_options() -> None:
    assert str(Contender(OURS, 2, label="FifoQueue")) == "scrapy-rq-sched, FifoQueue, 2 ms away"


def test_the_site_is_a_tree_with_links_back() -> None:
    pages = 100
    linked = [links_of(number, pages) for number in range(pages)]
    for number, links in enumerate(linked):
        new = [link for link in links if link > 10 * number]
        assert new == [*range(10 * number + 1, min(10 * number + 11, pages))]
        assert len(links) - len(new) == 10
    assert {link for links in linked for link in links} | {0} == set(range(pages))
    assert number_of(page_url(57)) == 57
