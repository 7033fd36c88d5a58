"""``scrapy frontier pool``: the items of pools from a terminal."""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.commands.pool import _lines
from scrapy_rq_sched.errors import InspectionError
from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.keys import Keys

from ..support import pools
from ..support.crawl import Fleet, run_python
from ..support.pools import PASSWORD, SECRET

pytestmark = pytest.mark.single("the worker here has the keys of a single server")


def run(
    redis_url: str, *arguments: str, command: str = "pool", stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command for the spider with pools."""
    return run_python(
        *("-m", "scrapy", "frontier", command, "pooled", *arguments), redis_url=redis_url, stdin=stdin
    )


def output(redis_url: str, *arguments: str, stdin: str | None = None) -> str:
    done = run(redis_url, *arguments, stdin=stdin)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def refused(redis_url: str, *arguments: str, stdin: str | None = None) -> str:
    done = run(redis_url, *arguments, stdin=stdin)
    assert (done.returncode != 0, done.stdout) == (True, "")
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture(autouse=True)
def _filled(server: redis.Redis, redis_url: str) -> None:
    pools.fill(pools.start(server), View.from_settings(Settings({"REDIS_URL": redis_url}), "pooled"))


def values(server: redis.Redis) -> Mapping[str, object]:
    keys = Keys("pooled")
    found: list[bytes] = server.zrange(keys.pool_items("accounts"), 0, -1)  # type: ignore[assignment]
    names = [name.decode() for name in found]
    return {
        name: json.loads(server.hget(keys.pool_item("accounts", name), "value") or b"null") for name in names
    }


@pytest.mark.parametrize("words", [[], ["list"], ["accounts"], ["list", "accounts"]])
def test_the_items_are_listed_with_their_states(redis_url: str, words: list[str]) -> None:
    heading, *rows = output(redis_url, *words).splitlines()
    assert heading.split("  ")[0] == "POOL"
    by_name = {row.split()[1]: row for row in rows}
    assert ("in use" in by_name["alice"], "w-1" in by_name["alice"]) == (True, True)
    assert ("rests" in by_name["bob"], "status 403" in by_name["bob"]) == (True, True)
    assert ("retired" in by_name["carol"], "it is locked" in by_name["carol"]) == (True, True)
    assert len(rows) == (6 if "accounts" in words else 9)


def test_json_has_an_object_an_item(redis_url: str) -> None:
    found = {one["name"]: one for one in map(json.loads, output(redis_url, "--json").splitlines())}
    assert found["bob"]["state"] == "rests"
    assert found["alice"]["workers"] == ["w-1"]
    assert not {"value", "cookies"} & set(found["alice"])
    assert len(output(redis_url, "accounts", "--json", "-n", "2").splitlines()) == 2


def test_a_long_list_tells_how_to_show_more(redis_url: str) -> None:
    *_, last = output(redis_url, "-n", "2").splitlines()
    assert last == "There are more items. To show 20: -n 20"


def test_items_of_standard_input_are_added(redis_url: str, server: redis.Redis) -> None:
    lines = f'# new ones\n{{"user": "gina", "password": "{PASSWORD}"}}\n\n hans \n'
    text = output(redis_url, "add", "accounts", "-", stdin=lines)
    assert text == "2 items were added to pool 'accounts': 'gina', 'hans'"
    assert values(server)["gina"] == {"user": "gina", "password": PASSWORD}
    assert values(server)["hans"] == "hans"


def test_the_other_changes_are_made(redis_url: str, server: redis.Redis) -> None:
    assert "'dave' of pool 'accounts' will rest for 10 min" in output(
        redis_url, "rest", "accounts", "dave", "10m", "captcha"
    )
    assert "'erin' of pool 'accounts' is retired" in output(redis_url, "retire", "accounts", "erin")
    assert "1 item was removed from pool 'accounts'" in output(redis_url, "remove", "accounts", "frank")
    found = {one["name"]: one for one in map(json.loads, output(redis_url, "--json").splitlines())}
    assert (found["dave"]["why"], found["erin"]["state"], "frank" in found) == ("captcha", "retired", False)


@pytest.mark.parametrize(
    "words",
    [
        ["add", "accounts"],
        ["add", PASSWORD, "x"],
        ["ad", "accounts", PASSWORD],
        ["accounts", PASSWORD],
        ["add", "accounts", f'{{"password": "{PASSWORD}"}}'],
        ["add", "proxies", f"http://u:{PASSWORD}@"],
        ["remove", "accounts", PASSWORD],
        ["rest", "accounts", "alice"],
        ["rest", "accounts", "alice", "soon"],
        ["rest", "accounts", "alice", "-5"],
        ["retire", "accounts", "alice", "a", "b"],
        ["--dry-run"],
        ["-n", "0"],
    ],
)
def test_wrong_arguments_are_refused_and_show_nothing_secret(
    redis_url: str, server: redis.Redis, words: list[str]
) -> None:
    before = {key: server.dump(key) for key in server.keys("pooled:*")}
    assert SECRET not in refused(redis_url, *words)
    assert {key: server.dump(key) for key in server.keys("pooled:*")} == before


def test_input_that_is_not_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe")))
    with pytest.raises(InspectionError, match="must be UTF-8 text"):
        _lines()


def test_a_spider_without_pools_has_no_items(redis_url: str, server: redis.Redis) -> None:
    pools.start(server, "plain", pools=())
    done = run_python("-m", "scrapy", "frontier", "pool", "plain", redis_url=redis_url)
    assert done.stdout == "No pool of spider plain has items\n"


def test_no_command_shows_a_secret(redis_url: str, server: redis.Redis, tmp_path: Path) -> None:
    failed = {
        "id": "1",
        "kind": "request",
        "reason": "x",
        "time": 0,
        "data": '{"url": "https://shop.example/9"}',
    }
    server.rpush("pooled:failed", json.dumps(failed))
    file = tmp_path / "pooled.frontier"
    commands = [
        *(["pool"], ["pool", "--json"], ["status"], ["status", "--json"], ["workers", "--json"]),
        *(["leases"], ["leases", "--json"], ["peek", "--json"], ["slots", "--json"], ["groups"], ["events"]),
        *(["failed", "--json"], ["explain", f"{pools.PAGE}/1"], ["explain", f"{pools.PAGE}/2"]),
        *(["explain", f"{pools.PAGE}/1", "--json"], ["explain", f"{pools.PAGE}/2", "--json"]),
        *(["doctor"], ["doctor", "--json"], ["export", "--file", str(file)], ["denied"]),
    ]
    for command, *arguments in commands:
        done = run(redis_url, *arguments, command=command)
        assert SECRET not in done.stdout + done.stderr, command
        assert "Traceback" not in done.stderr
    assert SECRET not in file.read_text()
    assert "accounts alice" in file.read_text()
    run(redis_url, "--file", str(file), "--with-secrets", command="export")
    assert (file.read_text().count(PASSWORD) >= 6, file.stat().st_mode & 0o077) == (True, 0)
    other = run_python(
        *("-m", "scrapy", "frontier", "import", "graph", "--file", str(file)), redis_url=redis_url
    )
    assert (other.stderr, other.returncode, SECRET in other.stdout) == ("", 0, False)
    assert "9 items of pools" in other.stdout


def test_no_log_of_a_crawl_has_a_secret(fleet: Fleet, server: redis.Redis, redis_url: str) -> None:
    accounts = [{"user": user, "password": PASSWORD} for user in ("alice", "bob", "carol")]
    setting = {
        "accounts": {"items": accounts, "headers": {"Authorization": "Bearer {password}"}, "retire_after": 2}
    }
    fleet.start(
        "accounts",
        2,
        SPIDER_MODULES="crawls.accounts",
        FRONTIER_POOLS=json.dumps(setting),
        LOG_LEVEL="DEBUG",
        SCHEDULER_PERSIST=True,
    )
    fleet.wait()
    assert fleet.reasons() == ["finished"] * 2
    assert len(fleet.events("account")) == 12
    logs = [fleet.log(worker) for worker in (0, 1)]
    assert any("is retired: it is locked" in log for log in logs)
    assert not [log for log in logs if SECRET in log]
    hashes = list(server.scan_iter("accounts:*", _type="hash"))
    its = {key for key in hashes if SECRET in str(server.hgetall(key))}
    assert its == {f"accounts:pools:item:accounts/{name}".encode() for name in ("alice", "bob", "carol")}
