"""The commands in a project of which a file cannot be imported."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from ..support.crawl import run_python

pytestmark = pytest.mark.single("the import of a project's files; its Redis does not matter")

PROBLEM = "farm/broken.py, line 3, cannot be loaded: SyntaxError: expected ':'"
WARNING = f"scrapy frontier: {PROBLEM}. This command goes on without its spiders"


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    """A project with a spider that is right, after a file that is not."""
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = farm.settings\n")
    (tmp_path / "farm").mkdir()
    (tmp_path / "farm" / "__init__.py").touch()
    (tmp_path / "farm" / "settings.py").write_text(
        "import os\nSPIDER_MODULES = ['farm']\nREDIS_URL = os.environ['REDIS_URL']\n"
        "ADDONS = {'scrapy_rq_sched.Addon': 500}\n"
    )
    (tmp_path / "farm" / "broken.py").write_text(
        "import scrapy\n\nclass Broken(scrapy.Spider)\n    name = 'broken'\n"
    )
    (tmp_path / "farm" / "sound.py").write_text(
        "import scrapy\n\n\nclass Sound(scrapy.Spider):\n    name = 'sound'\n    start_urls = ['data:,a']\n\n"
        "    def parse(self, response):\n        yield {'text': response.text}\n"
    )
    return tmp_path


def run(farm: Path, redis_url: str, *arguments: str) -> tuple[int, list[str], list[str]]:
    done = run_python("-m", "scrapy", "frontier", *arguments, redis_url=redis_url, folder=farm)
    return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()


@pytest.mark.parametrize(
    "command", ["status", "status sound", "workers sound", "failed sound", "doctor sound"]
)
def test_a_command_that_reads_warns_of_a_broken_file_and_goes_on(
    farm: Path, server: redis.Redis, redis_url: str, command: str
) -> None:
    server.hset("sound:meta", mapping={"format": "6", "epoch": "1", "requests_key": "sound:requests"})
    _, shown, errors = run(farm, redis_url, *command.split())
    assert shown
    assert errors == [WARNING]


def test_a_spider_that_may_be_in_a_broken_file_has_one_error_with_file_and_line(
    farm: Path, server: redis.Redis, redis_url: str
) -> None:
    for command, beginning in (
        ("status", "Neither this project nor Redis has a spider 'broken'. The project's spiders: sound"),
        ("crawl", "This project has no spider 'broken'. Its spiders: sound"),
    ):
        code, shown, errors = run(farm, redis_url, command, "broken")
        assert (code, shown) == (1, [])
        end = "Correct this, if it should have the spider"
        assert errors == [f"scrapy frontier: {beginning}. {PROBLEM}. {end}"]


def test_a_spider_is_crawled_though_the_file_of_another_one_is_broken(
    farm: Path, server: redis.Redis, redis_url: str
) -> None:
    code, shown, errors = run(farm, redis_url, "crawl", "sound", "-w", "1", "-O", "items.jsonl")
    assert (code, errors) == (0, [WARNING]), shown
    assert (farm / "items.jsonl").read_text() == '{"text": "a"}\n'
