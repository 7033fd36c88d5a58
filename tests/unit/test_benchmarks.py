"""What the benchmarks say of their figures; the figures themselves are not the tests' business."""

from __future__ import annotations

import datetime
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from scrapy.http import TextResponse

from benchmarks import __main__, checkout, idle, items, polite_cost, report
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
    results = Results({"growing": crawl_figures(0.5)}, {"growing": "some day"}, {"growing": "a" * 40})
    results.write(tmp_path)
    again = Results.read(tmp_path / "benchmarks.json")
    assert again == results
    assert "| scrapy-rq-sched | 100 (50 to 200) | 0.500 (0.500 to 0.500) |" in again.page()


def results_of(**commits: str) -> Results:
    figures = {name: crawl_figures(1.0) for name in commits}
    about = dict.fromkeys(commits, "2026-11-21: 2 cores")
    return Results(figures, about, {name: commit for name, commit in commits.items() if commit})


def test_a_page_of_one_commit_names_it_once() -> None:
    page = results_of(crawl="a" * 40, growing="a" * 40).page()
    assert "\nAll figures: commit `aaaaaaaaaaaa`.\n" in page
    assert page.count("aaaaaaaaaaaa") == 1


def test_a_page_of_several_commits_names_that_of_each_table_and_warns() -> None:
    page = results_of(crawl="a" * 40, growing="b" * 40).page()
    assert "**The tables are of different commits.**" in page
    assert "\n2026-11-21: 2 cores; commit `aaaaaaaaaaaa`.\n" in page
    assert "\n2026-11-21: 2 cores; commit `bbbbbbbbbbbb`.\n" in page


def test_a_table_of_changed_code_says_so() -> None:
    page = results_of(crawl="a" * 40 + checkout.CHANGED, growing="a" * 40).page()
    assert "; commit `aaaaaaaaaaaa`, with changes that are in no commit.\n" in page


def test_figures_without_a_commit_are_of_an_unknown_one() -> None:
    page = results_of(crawl="", growing="b" * 40).page()
    assert "\n2026-11-21: 2 cores; unknown commit.\n" in page


class Repository:
    """A git repository with one commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "--quiet")
        self.change("scrapy_rq_sched/code.py")

    def git(self, *arguments: str) -> str:
        author = ["-c", "user.name=tests", "-c", "user.email=tests@example.org"]
        command = ["git", *author, *arguments]
        done = subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def write(self, name: str) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        with path.open("a") as file:
            file.write("a line\n")

    def change(self, name: str) -> None:
        self.write(name)
        self.git("add", name)
        self.git("commit", "--quiet", "--message", name)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    if shutil.which("git") is None:
        pytest.skip("git is not here")
    return Repository(tmp_path)


def test_the_commit_of_a_clean_checkout_is_the_last_that_changed_the_package(repository: Repository) -> None:
    of_package = repository.git("rev-parse", "HEAD")
    repository.change("benchmarks/crawl.py")
    assert checkout.commit(repository.folder) == of_package


@pytest.mark.parametrize("name", ["scrapy_rq_sched/code.py", "scrapy_rq_sched/new.py"])
def test_the_commit_of_a_checkout_with_changed_code_is_marked(repository: Repository, name: str) -> None:
    repository.write(name)
    assert checkout.commit(repository.folder) == repository.git("rev-parse", "HEAD") + checkout.CHANGED


@pytest.mark.parametrize("name", ["docs/benchmarks.json", "README.md", "benchmarks/crawl.py"])
def test_changes_outside_the_package_do_not_mark_a_commit(repository: Repository, name: str) -> None:
    repository.write(name)
    assert checkout.commit(repository.folder) == repository.git("rev-parse", "HEAD")


def test_a_folder_that_is_no_checkout_has_no_commit(tmp_path: Path) -> None:
    assert checkout.commit(tmp_path) == ""


def test_commits_that_do_not_change_the_package_do_not_count_as_newer(repository: Repository) -> None:
    measured = checkout.commit(repository.folder)
    repository.change("scrapy_rq_sched/code.py")
    repository.change("docs/benchmarks.json")
    repository.change("scrapy_rq_sched/code.py")
    assert checkout.commits_since(measured, repository.folder) == 2


def test_the_age_of_each_workload_is_told_in_days_and_commits(repository: Repository) -> None:
    results = results_of(crawl=checkout.commit(repository.folder), growing="", replay="c" * 40)
    repository.change("scrapy_rq_sched/code.py")
    ages = list(results.ages(datetime.date(2026, 11, 25), repository.folder))
    assert ages[:4] == [
        f"crawl        4 days old, commit `{results.commits['crawl'][:12]}`, 1 commit since",
        "growing      4 days old, unknown commit",
        "replay       4 days old, commit `cccccccccccc`, which this checkout does not have",
        "http         not measured",
    ]


def test_each_workload_has_a_table() -> None:
    assert list(__main__.WORKLOADS) == list(report.WORKLOADS)


def test_the_targets_of_idle_workers_are_found_in_the_figures_of_the_workload() -> None:
    figures = Figures()
    figures.add(idle.IDLE, more_percent=1.0, latency_ms=20.0)
    found = [target for target in targets({"idle": figures}) if target.ours is not None]
    assert [target.verdict for target in found] == ["met"] * 2


def test_the_targets_of_items_are_found_in_the_figures_of_the_workload() -> None:
    figures = Figures()
    for way in items.WAYS:
        figures.add(f"{OURS}, {way}", of_file=0.97, more_redis_us=10.0)
    found = [target for target in targets({"items": figures}) if target.ours is not None]
    assert [target.verdict for target in found] == ["met"] * 6


def test_the_targets_of_politeness_are_found_in_the_figures_of_the_workload() -> None:
    figures = Figures()
    for crawl in polite_cost.CRAWLS:
        figures.add(str(crawl), redis_us=150.0, exchanges=0.3)
    found = [target for target in targets({"polite_cost": figures}) if target.ours is not None]
    assert [target.verdict for target in found] == ["met"] * 7


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
