"""``scrapy frontier seed``: all seeds are checked before one is pushed, and each is pushed once."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from scrapy import Spider
from scrapy.settings import Settings

from scrapy_rq_sched import RedisSpider
from scrapy_rq_sched.commands.action import Context
from scrapy_rq_sched.commands.output import Output
from scrapy_rq_sched.commands.seed import Seed
from scrapy_rq_sched.embedded import PrivateRedis, free_port
from scrapy_rq_sched.errors import InspectionError
from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.inspect.operations import seed_lines, seeding
from scrapy_rq_sched.inspect.operations.seed_lines import open_lines
from scrapy_rq_sched.inspect.operations.seed_rules import SeedRules
from scrapy_rq_sched.inspect.operations.seeding import STEP, STEP_BYTES, Few, Seeding

from ..project.crawls.graph import page_url
from ..support.crawl import PROJECT, Fleet, run_python, wait_until
from ..support.proxy import Proxy

KEY = "seeds:start_urls"
PROGRESS = "seeds:seeding"
URLS = [page_url(number) for number in range(5)]
#: So many that a process is met in the middle of them; and a few steps.
MANY, SOME = 60 * STEP, 20 * STEP


def run(*arguments: str, redis_url: str, code: int = 0, **options: Any) -> str:
    """Run the command, and return all that it wrote."""
    done = run_python(
        "-m", "scrapy", "frontier", "seed", *arguments, redis_url=redis_url, timeout=120, **options
    )
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    assert done.returncode == code, said
    return said


def pushed(server: redis.Redis, key: str = KEY) -> list[str]:
    return [seed.decode() for seed in server.lrange(key, 0, -1)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of seeds."""
    path = tmp_path / "seeds.txt"
    path.write_text("\n".join(URLS))
    return path


@pytest.fixture
def some(tmp_path: Path) -> Path:
    """A file of seeds that are pushed in some steps."""
    path = tmp_path / "some.txt"
    path.write_text("".join(f"{page_url(number)}\n" for number in range(SOME)))
    return path


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """A file of more seeds than are pushed in a moment."""
    path = tmp_path / "big.txt"
    path.write_text("".join(f"{page_url(number)}\n" for number in range(MANY)))
    return path


class Pages(Spider):
    name = "seeds"


def a_view(redis_url: str, spidercls: type[Spider] | None = Pages, **settings: Any) -> View:
    return View.from_settings(Settings({"REDIS_URL": redis_url, **settings}), "seeds", spidercls)


class Pushing:
    """A push of a file's lines, by this process; what it has told of its progress is in ``steps``."""

    def __init__(self, view: View, path: Path) -> None:
        rules = SeedRules(view)
        self._opened = open_lines(str(path), rules.encoding)
        self.push = Seeding(view, self._opened.__enter__(), rules)
        self.push.check()
        self.push.begin()
        self.steps: list[int] = []

    def run(self, break_off_after: float = float("inf")) -> None:
        def advance(count: int) -> None:
            self.steps.append(count)
            if len(self.steps) >= break_off_after:
                raise KeyboardInterrupt

        try:
            self.push.push(advance)
        finally:
            self._opened.__exit__(None, None, None)


# -- what is pushed ----------------------------------------------------------------------------------


def test_urls_of_the_command_line_are_pushed_in_their_order(server: redis.Redis, redis_url: str) -> None:
    assert "5 seeds were pushed to" in run("seeds", *URLS, redis_url=redis_url)
    assert pushed(server) == URLS


def test_options_may_stand_between_urls(server: redis.Redis, redis_url: str) -> None:
    run("seeds", URLS[0], "--priority", "5", URLS[1], URLS[2], redis_url=redis_url)
    assert [json.loads(seed) for seed in pushed(server)] == [{"url": url, "priority": 5} for url in URLS[:3]]


def test_an_option_that_is_not_known_is_refused(server: redis.Redis, redis_url: str) -> None:
    said = run("seeds", URLS[0], "--prority", "5", redis_url=redis_url, code=2)
    assert "unrecognized arguments: --prority 5" in said
    assert not server.exists(KEY)


def test_the_lines_of_a_file_are_pushed_in_their_order(
    server: redis.Redis, redis_url: str, file: Path
) -> None:
    run("seeds", "--file", str(file), redis_url=redis_url)
    assert pushed(server) == URLS


@pytest.mark.parametrize("arguments", [["-"], ["--file", "-"], ["--file", "/dev/stdin"]], ids=" ".join)
def test_the_lines_of_the_standard_input_are_pushed(
    server: redis.Redis, redis_url: str, arguments: list[str]
) -> None:
    run("seeds", *arguments, redis_url=redis_url, stdin="\n".join(URLS))
    assert pushed(server) == URLS


def test_blank_lines_and_comments_are_no_seeds(server: redis.Redis, redis_url: str, file: Path) -> None:
    file.write_bytes(
        b"\xef\xbb\xbf  http://a.test/ \r\n\r\n \t\n# of 2026\n  #http://b.test/\nhttp://c.test/#d\n"
    )
    run("seeds", "--file", str(file), redis_url=redis_url)
    assert pushed(server) == ["http://a.test/", "http://c.test/#d"]


def test_seeds_are_pushed_behind_the_waiting_ones(server: redis.Redis, redis_url: str) -> None:
    server.rpush(KEY, URLS[0])
    run("seeds", URLS[1], redis_url=redis_url)
    assert pushed(server) == URLS[:2]


def test_a_url_that_is_given_twice_is_pushed_twice(server: redis.Redis, redis_url: str) -> None:
    run("seeds", URLS[0], URLS[0], redis_url=redis_url)
    run("seeds", URLS[0], redis_url=redis_url)
    assert pushed(server) == [URLS[0]] * 3


def test_a_file_that_is_pushed_twice_is_there_twice(server: redis.Redis, redis_url: str, file: Path) -> None:
    for _ in "12":
        run("seeds", "--file", str(file), redis_url=redis_url)
    assert pushed(server) == URLS * 2


def test_priority_and_meta_are_of_the_seeds_that_do_not_say_so_themselves(
    server: redis.Redis, redis_url: str, file: Path
) -> None:
    file.write_text(
        f'{URLS[0]}\n{{"url": "{URLS[1]}", "priority": 7, "meta": {{"shop": 2}}, "callback": "other"}}\n'
    )
    given = ["--priority", "-3", "--meta", '{"shop": 1, "day": "žluť"}']
    run("seeds", "--file", str(file), *given, redis_url=redis_url)
    assert [json.loads(seed) for seed in pushed(server)] == [
        {"url": URLS[0], "priority": -3, "meta": {"shop": 1, "day": "žluť"}},
        {"url": URLS[1], "priority": 7, "meta": {"shop": 2, "day": "žluť"}, "callback": "other"},
    ]


def test_the_first_of_several_keys_gets_the_seeds(server: redis.Redis, redis_url: str) -> None:
    keys = "REDIS_START_URLS_KEY=%(name)s:start_urls,%(name)s:start_urls:later"
    run("seeds", "-s", keys, *URLS, redis_url=redis_url)
    assert pushed(server) == URLS
    assert not server.exists("seeds:start_urls:later")


def test_a_set_of_seeds_stays_a_set(server: redis.Redis, redis_url: str) -> None:
    server.sadd(KEY, URLS[0])
    said = run("seeds", *URLS, redis_url=redis_url)
    assert server.smembers(KEY) == {url.encode() for url in URLS}
    assert "a set, which keeps equal seeds once" in said


def test_in_a_sorted_set_the_priority_is_the_score(server: redis.Redis, redis_url: str) -> None:
    server.zadd(KEY, {"http://graph.test/first": 1})
    high = json.dumps({"url": URLS[1], "priority": 9})
    run("seeds", URLS[0], high, redis_url=redis_url)
    assert dict(server.zrange(KEY, 0, -1, withscores=True)) == {
        b"http://graph.test/first": 1,
        URLS[0].encode(): 0,
        high.encode(): 9,
    }


def test_a_sorted_set_that_workers_have_emptied_meanwhile_is_one_again(
    server: redis.Redis, redis_url: str, some: Path
) -> None:
    server.zadd(KEY, {"http://graph.test/first": 1})
    pushing = Pushing(a_view(redis_url), some)
    server.delete(KEY)
    pushing.run()
    assert server.zcard(KEY) == SOME


@pytest.mark.parametrize("encoding", ["cp1251", "utf-16"])
def test_a_file_is_in_the_encoding_of_the_seeds(
    server: redis.Redis, redis_url: str, file: Path, encoding: str
) -> None:
    seeds = ["http://graph.test/жук", json.dumps({"url": URLS[0], "meta": {"a": "жук"}}, ensure_ascii=False)]
    file.write_bytes("\n".join(seeds).encode(encoding))
    run("seeds", "--file", str(file), "-s", f"REDIS_ENCODING={encoding}", redis_url=redis_url)
    assert [seed.decode(encoding) for seed in server.lrange(KEY, 0, -1)] == seeds


def test_seeds_are_pushed_without_a_project_and_before_any_worker_has_joined(
    server: redis.Redis, redis_url: str, tmp_path: Path
) -> None:
    seed = json.dumps({"url": URLS[0], "callback": "parse_what_only_workers_know"})
    run("seeds", seed, "--redis-url", redis_url, redis_url="redis://nowhere", folder=tmp_path)
    assert pushed(server) == [seed]


# -- what is refused ---------------------------------------------------------------------------------


def test_a_bad_line_is_named_and_nothing_is_pushed(server: redis.Redis, redis_url: str, file: Path) -> None:
    file.write_text(f'{URLS[0]}\n\nexample.org\n{{"url": "{URLS[1]}", "callback": "gone"}}\n{{"url": \n')
    said = run("seeds", "--file", str(file), redis_url=redis_url, code=1)
    assert "line 3: " in said
    assert "Missing scheme in request url: example.org" in said
    assert "line 4: spider 'seeds' has no callback 'gone'" in said
    assert "line 5: not JSON" in said
    assert "Nothing was pushed: 3 lines of 4 are invalid" in said
    assert not server.exists(KEY)


def test_of_many_bad_lines_ten_are_named_and_the_others_counted(
    server: redis.Redis, redis_url: str, file: Path
) -> None:
    file.write_text("bad\n" * 1234)
    said = run("seeds", "--file", str(file), redis_url=redis_url, code=1)
    assert said.count("scrapy frontier: line ") == 10
    assert "and 1,224 more" in said


def test_a_line_that_is_no_text_is_bad(redis_url: str, file: Path) -> None:
    file.write_bytes(b"http://graph.test/\xff\n")
    for given in ([], ["--priority", "1"]):
        assert "line 1: not text in utf-8" in run(
            "seeds", "--file", str(file), *given, redis_url=redis_url, code=1
        )


def test_the_good_ones_are_pushed_without_the_bad_ones_if_that_is_wanted(
    server: redis.Redis, redis_url: str, file: Path
) -> None:
    file.write_text(f"{URLS[0]}\nbad\n{URLS[1]}\n")
    said = run("seeds", "--file", str(file), "--skip-invalid", redis_url=redis_url)
    assert "line 2: " in said
    assert "1 line skipped" in said
    assert "2 seeds were pushed" in said
    assert pushed(server) == URLS[:2]


def test_a_line_of_any_length_is_read_over(
    redis_url: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seed_lines, "LONGEST", 50)
    file.write_text(f"{URLS[0]}\n{'x' * 170}\n{URLS[1]}\n")
    with open_lines(str(file), "utf-8") as lines:
        assert list(lines) == [(1, URLS[0]), (2, None), (3, URLS[1])]
        found = Seeding(a_view(redis_url), lines, SeedRules(a_view(redis_url))).check()
    assert (found.good, found.bad) == (2, 1)
    assert "longer than" in found.problems[0][1]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "and then either URLs"),
        (["http://a.test/", "--file", "f"], "and then either URLs"),
        (["--file", "/nowhere/seeds.txt"], "'/nowhere/seeds.txt' cannot be read: No such file or directory"),
        (["--file", "/"], "'/' cannot be read: Is a directory"),
        (["--file", "/dev/null"], "Nothing was pushed: there are no seeds"),
        (["http://a.test/", "--meta", '{"ftp_local_filename": "/etc/passwd"}'], "Seeds cannot have this"),
        (["http://a.test/", "--priority", "1", "-s", "FRONTIER_SEED_FORM_DATA=1"], "a seed has no priority"),
    ],
)
def test_an_invalid_seed_or_argument_is_refused_in_one_line(
    server: redis.Redis, redis_url: str, arguments: list[str], reason: str
) -> None:
    said = run("seeds", *arguments, redis_url=redis_url, code=1)
    assert reason in said
    assert said.count("\n") == 1
    assert not server.exists(KEY)


@pytest.mark.parametrize("meta", ["7", "{", "[1]"])
def test_meta_that_is_no_object_is_refused(redis_url: str, meta: str) -> None:
    assert "argument --meta: must be " in run("seeds", URLS[0], "--meta", meta, redis_url=redis_url, code=2)


def test_a_key_that_is_none_of_seeds_is_left_alone(server: redis.Redis, redis_url: str) -> None:
    server.hset(KEY, "a", "b")
    said = run("seeds", URLS[0], redis_url=redis_url, code=1)
    assert "is a hash, but seeds need a list, a set or a sorted set" in said
    assert server.hgetall(KEY) == {b"a": b"b"}


def test_a_redis_that_is_away_is_named() -> None:
    assert "cannot be reached" in run("seeds", URLS[0], redis_url=f"redis://127.0.0.1:{free_port()}", code=1)


# -- spiders with seeds of another form --------------------------------------------------------------


class Own(RedisSpider):
    name = "seeds"

    def make_request_from_data(self, data: bytes) -> Any:
        raise NotImplementedError


OWN = """
import scrapy


class Own(scrapy.Spider):
    name = "seeds"

    def __init__(self, *args, **kwargs):
        raise RuntimeError("made where no crawl is")

    def make_request_from_data(self, data):
        raise RuntimeError("called where no crawl is")
"""


@pytest.fixture
def own_project(tmp_path: Path) -> Path:
    """A project whose spider has seeds of another form."""
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = own_settings\n")
    (tmp_path / "own_settings.py").write_text("SPIDER_MODULES = ['own_spiders']\n")
    (tmp_path / "own_spiders.py").write_text(OWN)
    return tmp_path


def test_seeds_of_another_form_are_pushed_as_they_are_and_it_is_said(
    server: redis.Redis, redis_url: str, own_project: Path
) -> None:
    options = ["-s", f"REDIS_URL={redis_url}"]
    said = run("seeds", "-", *options, redis_url=redis_url, folder=own_project, stdin="#shop,7\n\n a,b \n")
    assert pushed(server) == ["#shop,7", " a,b "]
    assert "the seeds are not checked, because spider seeds has its own format" in said


@pytest.mark.parametrize("given", [{"priority": 3}, {"meta": {"a": 1}}])
def test_seeds_of_another_form_are_given_nothing(redis_url: str, given: dict[str, Any]) -> None:
    with pytest.raises(InspectionError, match="with its own make_request_from_data"):
        SeedRules(a_view(redis_url, Own), **given)


def test_a_spiders_constructor_does_not_run(redis_url: str) -> None:
    class Built(Pages):
        def __init__(self) -> None:
            raise RuntimeError

    seeds = Seeding(a_view(redis_url, Built), Few(URLS), SeedRules(a_view(redis_url, Built)))
    assert seeds.check().good == 5


def test_the_encoding_of_a_redis_spider_is_that_of_its_seeds(redis_url: str) -> None:
    class Cyrillic(RedisSpider):
        name = "seeds"
        redis_encoding = "cp1251"

    assert SeedRules(a_view(redis_url, Cyrillic)).encoding == "cp1251"
    Cyrillic.redis_encoding = "no such"
    with pytest.raises(InspectionError, match="redis_encoding of spider 'seeds' must be the name"):
        SeedRules(a_view(redis_url, Cyrillic))


# -- pushes that break off ---------------------------------------------------------------------------


def start(path: Path, redis_url: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "scrapy", "frontier", "seed", "seeds", "--file", str(path)],
        cwd=PROJECT,
        env={**os.environ, "REDIS_URL": redis_url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def broken_off(server: redis.Redis, redis_url: str, big: Path) -> Iterator[Any]:
    """A function that breaks a push off by a signal, and returns how far it got and what it said."""
    pushing = start(big, redis_url)

    def break_off(sent: signal.Signals) -> tuple[int, str]:
        wait_until(lambda: server.llen(KEY) > STEP, message="it pushes")
        pushing.send_signal(sent)
        said = "".join(pushing.communicate(timeout=30))
        there: int = server.llen(KEY)
        assert STEP < there < MANY, "it was through before it could be broken off"
        return there, said

    yield break_off
    pushing.kill()
    pushing.communicate()


def test_a_push_that_was_killed_is_gone_on_with_and_each_seed_is_pushed_once(
    server: redis.Redis, redis_url: str, big: Path, broken_off: Any
) -> None:
    there, _ = broken_off(signal.SIGKILL)
    said = run("seeds", "--file", str(big), redis_url=redis_url)
    assert f"{there:,} of {MANY:,} seeds were pushed by an interrupted run: continuing there" in said
    assert f"{MANY - there:,} seeds were pushed" in said
    assert pushed(server) == [page_url(number) for number in range(MANY)]


def test_seeds_that_workers_have_taken_meanwhile_are_not_pushed_once_more(
    server: redis.Redis, redis_url: str, big: Path, broken_off: Any
) -> None:
    there, _ = broken_off(signal.SIGKILL)
    server.delete(KEY)
    run("seeds", "--file", str(big), redis_url=redis_url)
    assert pushed(server) == [page_url(number) for number in range(there, MANY)]


@pytest.mark.long
def test_ctrl_c_says_how_many_were_pushed_and_how_to_go_on(
    server: redis.Redis, redis_url: str, big: Path, broken_off: Any
) -> None:
    there, said = broken_off(signal.SIGINT)
    line = (
        f"interrupted: {there:,} of {MANY:,} seeds were pushed. Run the same command again to continue there"
    )
    assert said == f"scrapy frontier: {line}\n"
    run("seeds", "--file", str(big), redis_url=redis_url)
    assert pushed(server) == [page_url(number) for number in range(MANY)]


def test_how_far_a_push_has_got_is_kept_for_a_while_and_not_after_its_end(
    server: redis.Redis, redis_url: str, some: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        Pushing(a_view(redis_url), some).run(break_off_after=1)
    assert 6 * 24 * 3600 < server.ttl(PROGRESS) <= seeding.KEPT_FOR
    Pushing(a_view(redis_url), some).run()
    assert not server.exists(PROGRESS)


def test_other_seeds_or_other_keys_are_not_gone_on_with(
    server: redis.Redis, redis_url: str, some: Path, file: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        Pushing(a_view(redis_url), some).run(break_off_after=2)
    other_key = a_view(redis_url, REDIS_START_URLS_KEY="%(name)s:start_urls:other")
    assert Pushing(a_view(redis_url), file).push.pushed == 0
    assert Pushing(other_key, some).push.pushed == 0
    assert Pushing(a_view(redis_url), some).push.pushed == 2 * STEP


def test_a_push_that_broke_off_behind_its_last_seed_pushes_nothing_more(
    server: redis.Redis, redis_url: str, file: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        Pushing(a_view(redis_url), file).run(break_off_after=1)
    said = run("seeds", "--file", str(file), redis_url=redis_url)
    assert "5 of 5 seeds were pushed by an interrupted run: nothing is left to push" in said
    assert "0 seeds were pushed" in said
    assert pushed(server) == URLS


def test_ctrl_c_behind_the_last_seed_does_not_ask_to_run_it_again(
    server: redis.Redis,
    redis_url: str,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    forget, calls = Seeding.forget, []

    def interrupted(push: Seeding) -> None:
        forget(push)
        calls.append(push)
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(Seeding, "forget", interrupted)
    context = Context(Settings({"REDIS_URL": redis_url}), Output())
    options = argparse.Namespace(
        spider="seeds", seeds=[], file=str(file), priority=None, meta=None, skip_invalid=False, dry_run=False
    )
    assert Seed().run(context, options) is None
    said = capsys.readouterr()
    assert said.out.startswith("5 seeds were pushed to")
    assert not said.err
    assert len(calls) == 2


def test_two_that_push_the_same_at_once_push_each_seed_once(
    server: redis.Redis, redis_url: str, some: Path
) -> None:
    one, other = (Pushing(a_view(redis_url), some) for _ in "12")
    with pytest.raises(KeyboardInterrupt):
        one.run(break_off_after=3)
    other.run()
    assert pushed(server) == [page_url(number) for number in range(SOME)]


def test_a_step_begins_where_another_push_of_the_same_has_got_to(
    server: redis.Redis, redis_url: str, some: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (Pushing(a_view(redis_url), some) for _ in "12")
    monkeypatch.setattr(seeding, "STEP", 700)
    with pytest.raises(KeyboardInterrupt):
        one.run(break_off_after=2)
    monkeypatch.setattr(seeding, "STEP", STEP)
    other.run()
    assert pushed(server) == [page_url(number) for number in range(SOME)]


def test_of_two_that_push_the_same_at_once_the_second_is_told(
    server: redis.Redis, redis_url: str, some: Path
) -> None:
    # Both have checked before either has pushed.
    one, other = (Pushing(a_view(redis_url), some) for _ in "12")
    one.push.push()
    with pytest.raises(InspectionError, match="another command has finished pushing the same seeds"):
        other.push.push()
    assert pushed(server) == [page_url(number) for number in range(SOME)]


def test_a_push_stops_where_redis_has_come_back_with_older_data(
    server: redis.Redis, redis_url: str, some: Path
) -> None:
    pushing = Pushing(a_view(redis_url), some)

    def restart(count: int) -> None:
        server.delete(PROGRESS)

    with pytest.raises(InspectionError, match="pushed 1,000 of the seeds, but Redis no longer"):
        pushing.push.push(restart)
    assert server.llen(KEY) == STEP


def test_a_file_that_is_written_to_meanwhile_is_not_pushed(
    server: redis.Redis, redis_url: str, file: Path
) -> None:
    pushing = Pushing(a_view(redis_url), file)
    with file.open("a") as end:
        end.write("\nno seed\n")
    with pytest.raises(InspectionError, match="was changed while it was read"):
        pushing.run()
    assert not server.exists(KEY)


@pytest.mark.single("a proxy of one server")
def test_a_step_with_a_lost_reply_is_not_done_twice(
    server: redis.Redis, private_redis: PrivateRedis, some: Path
) -> None:
    with Proxy(private_redis.url, seed=1) as proxy:
        pushing = Pushing(a_view(proxy.url), some)
        proxy.swallow(0.05)
        pushing.run()
        assert proxy.faults
    assert pushed(server) == [page_url(number) for number in range(SOME)]


def test_urls_of_the_command_line_are_not_pushed_twice_if_the_reply_is_lost(
    server: redis.Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = a_view(redis_url)
    push = Seeding(view, Few(URLS), SeedRules(view))
    push.check()
    push.begin()
    once = push._step

    def twice(*arguments: Any) -> Any:
        once(*arguments)
        return once(*arguments)

    monkeypatch.setattr(push, "_step", twice)
    push.push()
    assert pushed(server) == URLS


@pytest.mark.single("its memory")
def test_a_full_redis_is_named_and_when_there_is_room_again_the_push_goes_on(
    server: redis.Redis, redis_url: str, file: Path
) -> None:
    server.config_set("maxmemory", 1)
    try:
        said = run("seeds", "--file", str(file), redis_url=redis_url, code=1)
    finally:
        server.config_set("maxmemory", 0)
    assert "'maxmemory'" in said
    run("seeds", "--file", str(file), redis_url=redis_url)
    assert pushed(server) == URLS


# -- steps -------------------------------------------------------------------------------------------


def test_a_step_has_no_more_seeds_than_redis_does_in_a_moment(redis_url: str, some: Path) -> None:
    pushing = Pushing(a_view(redis_url), some)
    pushing.run()
    assert pushing.steps == [STEP] * (SOME // STEP)


def test_a_step_has_no_more_bytes_than_redis_does_in_a_moment(redis_url: str, file: Path) -> None:
    file.write_text(
        f"{URLS[0]}?{'x' * (STEP_BYTES // 3)}\n" * 5 + f"{URLS[0]}?{'x' * STEP_BYTES}\n" + URLS[0]
    )
    pushing = Pushing(a_view(redis_url), file)
    pushing.run()
    assert pushing.steps == [2, 2, 1, 1, 1]


# -- who takes them ----------------------------------------------------------------------------------


def test_no_worker_is_there_to_take_them(redis_url: str) -> None:
    said = run("seeds", URLS[0], redis_url=redis_url)
    assert "1 seed was pushed to" in said
    assert "No worker is alive. Start one: scrapy crawl seeds" in said


@pytest.mark.long
def test_workers_of_a_crawl_take_them_while_they_are_pushed(
    server: redis.Redis, redis_url: str, fleet: Fleet, file: Path
) -> None:
    file.write_text("".join(f"{page_url(number)}\n" for number in range(3 * STEP)))
    fleet.start("seeds", 2)
    wait_until(lambda: server.zcard("seeds:workers") == 2)
    assert "2 workers will read them" in run("seeds", "--file", str(file), redis_url=redis_url)
    wait_until(lambda: len(fleet.events("parsed")) >= 3 * STEP)
    assert fleet.urls("parsed") == {page_url(number): 1 for number in range(3 * STEP)}


def test_a_crawl_that_is_paused_takes_none_and_it_is_said(
    server: redis.Redis, redis_url: str, fleet: Fleet
) -> None:
    fleet.start("seeds")
    wait_until(lambda: server.zcard("seeds:workers") == 1)
    done = run_python("-m", "scrapy", "frontier", "pause", "seeds", redis_url=redis_url)
    assert done.returncode == 0, done.stderr
    said = run("seeds", URLS[0], redis_url=redis_url)
    assert "The crawl is paused, with 1 worker. To resume it: scrapy frontier resume seeds" in said
