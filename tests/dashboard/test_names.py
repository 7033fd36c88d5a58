"""Names on the page: bounded, visible, and an address that has a login in it."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import pytest
import redis
from playwright.sync_api import Browser, expect
from scrapy.settings import Settings

from scrapy_rq_sched.commands.output import Fields, Table, plain
from scrapy_rq_sched.dashboard.app import below
from scrapy_rq_sched.dashboard.frontiers import Frontiers
from scrapy_rq_sched.dashboard.pictures import LONGEST_NAME, MOST_UNKNOWN, Pictures
from scrapy_rq_sched.errors import one_line

from ..support.client import Client
from .asgi import ask, do
from .browser import Watched, chromium, serving
from .conftest import Make
from .filled import push, worker

pytestmark = pytest.mark.single("the workers here have the keys of a single server")
expect.set_options(timeout=30_000)

READING = (
    *("status", "workers", "slots", "pools", "peek", "failed", "failed/counts", "events", "audit", "stream"),
    "explain?url=http://a/",
)
#: Characters that look like nothing, or that hide or reverse other text, with their escapes.
INVISIBLE = {
    "zero width space": ("\u200b", "\\u200b"),
    "zero width joiner": ("\u200d", "\\u200d"),
    "byte order mark": ("\ufeff", "\\ufeff"),
    "right-to-left override": ("\u202e", "\\u202e"),
    "isolate": ("\u2066", "\\u2066"),
    "Arabic letter mark": ("\u061c", "\\u061c"),
    "soft hyphen": ("\u00ad", "\\xad"),
    "word joiner": ("\u2060", "\\u2060"),
    "escape": ("\x1b", "\\x1b"),
    "C1 control": ("\x9b", "\\x9b"),
    "line break": ("\n", "\\n"),
    "tab": ("\t", "\\t"),
    "line separator": ("\u2028", "\\u2028"),
    "Hangul filler": ("\u3164", "\\u3164"),
    "blank of Braille": ("\u2800", "\\u2800"),
    "tag": ("\U000e0041", "\\U000e0041"),
}


@pytest.mark.parametrize("path", READING)
def test_a_name_that_is_too_long_is_refused(make: Make, server: redis.Redis, path: str) -> None:
    joined = "&" if "?" in path else "?"
    answer = ask(make(), f"/api/v1/{path}{joined}spider={'a' * (LONGEST_NAME + 1)}")
    assert answer.status == 404
    assert answer.error == "The name of a frontier must have at most 500 characters"


def test_an_action_for_a_name_that_is_too_long_is_refused(make: Make, server: redis.Redis) -> None:
    answer = do(make(actions=True), "pause", spider="a" * 100_000)
    assert answer.status == 404
    assert len(answer.body) < 200


def test_a_name_of_the_greatest_length_is_shown(make: Make, server: redis.Redis) -> None:
    push(worker(server, "a" * LONGEST_NAME), {"a.example": 1})
    assert ask(make(), f"/api/v1/status?spider={'a' * LONGEST_NAME}").status == 200
    push(worker(server, "b" * (LONGEST_NAME + 1)), {"a.example": 1})
    assert [one["name"] for one in ask(make(), "/api/v1/status").json()["frontiers"]] == ["a" * LONGEST_NAME]


@pytest.fixture
def pictures(redis_url: str) -> Iterator[Pictures]:
    executor = ThreadPoolExecutor(1)
    yield Pictures(Frontiers(Settings({"REDIS_URL": redis_url})), executor)
    executor.shutdown()


def test_the_latest_names_without_a_frontier_are_kept_and_not_more(pictures: Pictures) -> None:
    first = pictures.of("0")
    for number in range(1, MOST_UNKNOWN):
        pictures.of(str(number))
    assert pictures.of("0") is first
    tracemalloc.start()
    for number in range(1000):
        pictures.of(f"{number}-{'a' * 400}")
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert pictures.of("0") is not first
    assert held < 4_000_000


def test_names_without_a_frontier_do_not_displace_a_frontier(make: Make, shop: list[Client]) -> None:
    app = make()
    before = ask(app, "/api/v1/status?spider=shop").json()
    for number in range(2 * MOST_UNKNOWN):
        assert ask(app, f"/api/v1/status?spider=no-{number}").status == 404
    after = ask(app, "/api/v1/status?spider=shop").json()
    assert before["frontier"]["name"] == after["frontier"]["name"] == "shop"


@pytest.mark.parametrize(("character", "shown"), INVISIBLE.values(), ids=INVISIBLE)
def test_an_invisible_character_is_visible_in_the_terminal_and_in_the_log(character: str, shown: str) -> None:
    name = f"sh{character}op"
    assert plain(Table(["Spider"], [[name]])).splitlines()[1] == f"sh{shown}op"
    assert one_line(name) == f"sh{shown}op"
    if character not in "\n\t":
        assert plain(Fields([("spider", name)])).endswith(f"sh{shown}op")


def test_a_name_with_an_invisible_character_is_unchanged_in_the_api(make: Make, server: redis.Redis) -> None:
    push(worker(server, "sh\u200bop"), {"a.example": 1})
    answer = ask(make(), f"/api/v1/status?spider={quote('sh' + chr(0x200B) + 'op')}")
    assert json.loads(answer.body)["frontier"]["name"] == "sh\u200bop"


# -- in a browser ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as one:
        yield one


def test_an_invisible_character_in_a_name_is_visible_on_the_page_and_in_the_title(
    browser: Browser, make: Make, server: redis.Redis
) -> None:
    name = "sh" + "".join(character for character, _ in INVISIBLE.values()) + "op"
    push(worker(server, name), {"a.example": 4})
    shown = "sh" + "".join(rf"\u{ord(character):04x}" for character, _ in INVISIBLE.values()) + "op"
    with serving(make()) as url:
        page = browser.new_page()
        page.goto(f"{url}/#/s/{quote(name, safe='')}")
        expect(page.locator("[data-name=waiting]")).to_have_text("4")
        expect(page.locator("h1")).to_have_text(shown)
        expect(page.locator("#where b")).to_have_text(shown)
        # The browser itself would show a name without these characters as that of another spider.
        assert shown in page.evaluate("document.title")
        page.goto(f"{url}/#/")
        expect(page.locator("h2")).to_have_text(shown)
        page.close()


def test_a_page_with_the_login_in_its_address_works(browser: Browser, make: Make, shop: list[Client]) -> None:
    app = make({"FRONTIER_DASHBOARD_PASSWORD": "secret-word"}, actions=True)
    with serving(app) as url:
        seen = Watched(browser.new_page(), url)
        seen.page.goto(url.replace("http://", "http://frontier:secret-word@") + "/#/s/shop")
        seen.page.get_by_label("Password").fill("secret-word")
        seen.page.get_by_role("button", name="Log in").click()
        expect(seen.page.locator("#live")).to_have_text("live")
        expect(seen.page.locator("[data-name=waiting]")).not_to_be_empty()
        seen.page.get_by_role("button", name="Pause").click()
        seen.confirm()
        expect(seen.page.locator("[data-name=state]")).to_have_text("paused")
        seen.page.close()
    # The page asks for the login only after a browser was refused.
    assert not [text for text in seen.problems if "request to" not in text and "401" not in text]


def test_a_login_that_the_browser_does_not_keep_is_told(browser: Browser, make: Make) -> None:
    app = below(make({"FRONTIER_DASHBOARD_PASSWORD": "secret-word"}), "/crawls")
    with serving(app) as url:
        page = browser.new_page()
        page.goto(url)
        page.get_by_label("Password").fill("secret-word")
        page.get_by_role("button", name="Log in").click()
        expect(page.locator("#said")).to_contain_text("the browser did not keep the login")
        # There the cookie is valid.
        page.goto(f"{url}/crawls")
        expect(page.locator("#live")).to_have_text("live")
        page.close()


def test_a_long_name_in_the_address_of_the_page_is_cut(browser: Browser, make: Make, server: Any) -> None:
    with serving(make()) as url:
        page = browser.new_page()
        page.goto(f"{url}/#/s/{'a' * 2000}")
        expect(page.locator("h1")).to_have_text(f"{'a' * LONGEST_NAME}…")
        expect(page.get_by_text("must have at most 500 characters").first).to_be_visible()
        page.close()
