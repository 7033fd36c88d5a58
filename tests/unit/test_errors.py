"""The words and commands that messages are made of."""

from __future__ import annotations

import shlex

import pytest

from scrapy_rq_sched.errors import a_type, frontier_command


@pytest.mark.parametrize(
    ("types", "named"),
    [
        ((str,), "a str"),
        ((int,), "an int"),
        ((dict, list), "a dict or a list"),
        ((type(None),), "None"),
    ],
)
def test_a_type_has_its_article(types: tuple[type, ...], named: str) -> None:
    assert a_type(*types) == named


@pytest.mark.parametrize("spider", ["pages", "my shop", "it's", "$(reboot)"])
def test_a_command_names_one_spider_for_a_shell(spider: str) -> None:
    command = frontier_command("failed", spider, "--limit", "5")
    assert shlex.split(command) == ["scrapy", "frontier", "failed", spider, "--limit", "5"]
