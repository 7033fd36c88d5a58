"""The operations: a plan changes nothing, and the commands and the page tell the same of it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, get_args

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.codec.patterns import Pattern
from scrapy_rq_sched.commands.action import Change
from scrapy_rq_sched.commands.frontier import ACTIONS as COMMANDS
from scrapy_rq_sched.commands.frontier import Command
from scrapy_rq_sched.dashboard.actions import ACTIONS
from scrapy_rq_sched.frontier.messages import BottleneckName
from scrapy_rq_sched.inspect import View, read_status
from scrapy_rq_sched.inspect.limit import LIMITS
from scrapy_rq_sched.inspect.operations.operation import Observer
from scrapy_rq_sched.inspect.operations.waiting import remove_waiting, reprioritize_waiting

from ..support.client import Client
from .asgi import ask, do
from .conftest import Make
from .filled import REASONS, add_pool, worker_name
from .test_actions import BODIES, PAGE, contents

pytestmark = pytest.mark.single("the workers here have the keys of a single server")

SLOT = "api.books.example"
#: The command that does the same as each action of the page with the arguments of ``BODIES``.
SAME: dict[str, list[str]] = {
    "pause": ["pause", "shop"],
    "drain": ["drain", "shop"],
    "resume": ["resume", "shop"],
    "stop": ["stop", "shop"],
    "workers/stop": ["stop", "shop", "--worker", worker_name("shop", 2)],
    "seed": ["seed", "shop", f"{PAGE}/1", f"{PAGE}/2"],
    "forget": ["forget", "shop", f"{PAGE}/300", f"{PAGE}/301", "https://never.example/"],
    "failed/requeue": ["failed", "shop", "--reason", REASONS[0], "--requeue"],
    "failed/forget": ["failed", "shop", "--reason", REASONS[1], "--forget"],
    "deny": ["deny", "shop", SLOT],
    "allow": ["allow", "shop", "denied.example"],
    "slots/block": ["slots", "shop", "block", SLOT, "1m"],
    "slots/unblock": ["slots", "shop", "unblock", "slow.example.net"],
    "slots/set": ["slots", "shop", "set", SLOT, "delay=7"],
    "slots/reset": ["slots", "shop", "reset", SLOT],
    "pools/add": ["pool", "shop", "add", "accounts", "carol"],
    "pools/remove": ["pool", "shop", "remove", "accounts", "alice", "bob"],
    "pools/rest": ["pool", "shop", "rest", "accounts", "alice", "60"],
    "pools/retire": ["pool", "shop", "retire", "accounts", "bob", "it is locked"],
}
#: Commands that the page does not have.
ONLY_TYPED = {
    "remove": ["remove", "shop", "*/page/1*"],
    "remove and forget": ["remove", "shop", "--host", "books.example", "--forget"],
    "reprioritize": ["reprioritize", "shop", "5", "*/page/1*"],
    "clear": ["clear", "shop", "--force", "--yes"],
    "forget and crawl": ["forget", "shop", f"{PAGE}/300", "--crawl"],
}
#: Arguments with which each command that changes a frontier, and has no operation, can be parsed.
OTHERS = {"import": ["import", "shop"], "convert": ["convert", "shop"]}

Typed = Callable[..., tuple[str, str]]


@pytest.fixture
def typed(redis_url: str, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Return a function that runs ``scrapy frontier``, and returns its output and its errors."""

    def run(*arguments: str) -> tuple[str, str]:
        capsys.readouterr()
        command, parser = Command(), argparse.ArgumentParser()
        command.settings = Settings({"REDIS_URL": redis_url})
        command.add_options(parser)
        options, rest = parser.parse_known_args(arguments)
        command.process_options(rest, options)
        command.run(rest, options)
        said = capsys.readouterr()
        return said.out, said.err

    return run


@pytest.mark.parametrize("name", [*SAME, *ONLY_TYPED])
def test_a_dry_run_of_a_command_changes_nothing(
    shop: list[Client], server: redis.Redis, typed: Typed, name: str
) -> None:
    arguments = {**SAME, **ONLY_TYPED}[name]
    if name == "resume":
        typed("pause", "shop")
    typed("deny", "shop", "denied.example")
    add_pool(server)
    before = contents(server)
    plan, errors = typed(*arguments, "--dry-run")
    assert (plan.endswith(" (--dry-run)\n"), plan.count("\n"), errors) == (True, 1, "")
    assert "would" in plan
    assert contents(server) == before
    deed, errors = typed(*arguments)
    assert (deed == "", errors) == (False, "")
    assert contents(server) != before


def test_the_page_has_a_command_for_each_action() -> None:
    assert set(SAME) == set(ACTIONS)


def test_every_command_that_changes_a_frontier_has_a_dry_run() -> None:
    tried = {arguments[0] for arguments in (*SAME.values(), *ONLY_TYPED.values())}
    assert tried == {action.name for action in COMMANDS if issubclass(action, Change)}
    parser, command = argparse.ArgumentParser(), Command()
    command.settings = Settings()
    command.add_options(parser)
    for arguments in OTHERS.values():
        assert parser.parse_args([*arguments, "--dry-run"]).dry_run


# The page has seconds for a block and a rest, where an operator types and reads minutes.
@pytest.mark.parametrize("action", [action for action in ACTIONS if not action.endswith(("/block", "/rest"))])
def test_the_page_tells_the_same_plan_as_the_command(
    app: Any, server: redis.Redis, typed: Typed, action: str
) -> None:
    add_pool(server)
    typed("deny", "shop", "denied.example")
    answer = do(app, action, spider="shop", dry_run=True, **BODIES[action])
    assert typed(*SAME[action], "--dry-run")[0] == f"{answer.json()['said']} (--dry-run)\n"


@pytest.mark.parametrize("arguments", [["failed", "shop"], ["slots", "shop"], ["pool", "shop"]])
def test_a_dry_run_of_a_list_is_refused(
    shop: list[Client], server: redis.Redis, typed: Typed, arguments: list[str]
) -> None:
    said, errors = typed(*arguments, "--dry-run")
    assert (said, "a list changes nothing" in errors) == ("", True)


def test_seeds_that_would_be_refused_are_refused_by_the_dry_run_as_well(
    shop: list[Client], server: redis.Redis, typed: Typed
) -> None:
    before = contents(server)
    said, errors = typed("seed", "shop", f"{PAGE}/1", "no url", "--dry-run")
    assert said == ""
    assert "seed 2: " in errors
    assert "1 seed of 2 is invalid" in errors
    assert contents(server) == before


def test_no_url_of_a_list_is_forgotten_if_one_is_not_valid(
    shop: list[Client], server: redis.Redis, typed: Typed
) -> None:
    before = contents(server)
    _, errors = typed("forget", "shop", f"{PAGE}/300", "no url")
    assert "'no url' is neither a valid URL" in errors
    assert contents(server) == before


class Interrupted(Observer):
    """Ends an operation after its first step."""

    @contextmanager
    def progress(self, what: str, total: int | None) -> Iterator[Callable[[int], None]]:
        def advance(count: int) -> None:
            raise KeyboardInterrupt

        yield advance


@pytest.mark.parametrize("prepare", [remove_waiting, lambda *given: reprioritize_waiting(*given, 5)])
def test_an_interrupted_change_of_waiting_requests_tells_how_many_it_changed(
    view: View, prepare: Callable[..., Any]
) -> None:
    operation, waiting = prepare(view, Interrupted(), Pattern("*")), read_status(view).waiting
    with pytest.raises(KeyboardInterrupt, match="The others are unchanged") as interruption:
        operation.do()
    changed = int(str(interruption.value).removeprefix("interrupted: ").split()[0].replace(",", ""))
    assert 0 < changed < waiting
    if prepare is remove_waiting:
        assert read_status(view).waiting == waiting - changed


def test_the_page_has_the_text_of_every_limit(make: Make, shop: list[Client]) -> None:
    assert set(LIMITS) == set(get_args(BottleneckName))
    assert ask(make(), "/api/v1/about").json()["limits"] == LIMITS
