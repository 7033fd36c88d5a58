"""The page in a real browser: it shows what is there, does what it says, and runs nothing but ours."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import redis
from playwright.sync_api import Browser, Page, expect
from scrapy.settings import Settings
from starlette.applications import Starlette
from starlette.routing import Mount

from scrapy_rq_sched.codec.outcomes import Outcome, url_digest, worker_digest
from scrapy_rq_sched.dashboard import create_app
from scrapy_rq_sched.embedded import PrivateRedis
from scrapy_rq_sched.frontier.messages import Push
from scrapy_rq_sched.inspect import Control, View, read_status
from scrapy_rq_sched.inspect.audit import Audit
from scrapy_rq_sched.inspect.slots import Slots

from ..support.client import Client
from ..support.crawl import Fleet, run_python, wait_until
from .asgi import TOKEN
from .browser import NARROW, Watched, serving
from .conftest import Make, Open
from .filled import add_pool, failed_entry, fill, history, past, push, worker

pytestmark = pytest.mark.single("the workers here have the keys of a single server")

# What takes long on a busy machine is made less often: a second picture may be ten seconds away.
expect.set_options(timeout=30_000)

TABS = ("workers", "slots", "failed", "history", "next", "explain", "seed", "audit")


@pytest.fixture
def seen(look: Open, app: Any) -> Watched:
    """The page of a frontier with something of everything, which may steer it."""
    return look(app)


def status_of(redis_url: str, spider: str = "shop") -> Any:
    done = run_python("-m", "scrapy", "frontier", "status", spider, "--json", redis_url=redis_url)
    return json.loads(done.stdout)


# -- what it shows ---------------------------------------------------------------------------------------


def test_the_page_has_the_numbers_of_the_command(seen: Watched, redis_url: str) -> None:
    page = seen.open()
    said = status_of(redis_url)
    for name in ("waiting", "leased", "failed", "seeds", "seen"):
        assert seen.number(name) == said[name] > 0, name
    assert seen.number("alive") == sum(one["alive"] for one in said["workers"]) == 3
    expect(page.locator("[data-name=state]")).to_have_text(said["state"])
    expect(page.locator("[data-name=limit]")).to_have_attribute("data-limit", said["limit"])
    rows = seen.tab("workers").locator("tbody tr")
    expect(rows).to_have_count(4)
    for row, one in zip(
        rows.all(), sorted(said["workers"], key=lambda w: (not w["alive"], w["name"])), strict=True
    ):
        assert one["name"] in row.inner_text()
        assert f"{one['pages']:,}" in row.inner_text()


def test_each_tab_shows_its_list(seen: Watched) -> None:
    seen.open()
    slots = seen.tab("slots")
    expect(slots.locator("tbody tr").first).to_contain_text("slow.example.net")
    expect(slots.locator("tbody tr")).to_have_count(28)
    failed = seen.tab("failed")
    expect(failed.locator(".group")).to_have_count(3)
    failed.locator("summary", has_text="TypeError").click()
    entry = failed.locator(".entry").first
    expect(entry.locator("a")).to_have_attribute("rel", "noreferrer noopener")
    entry.locator("summary").click()
    expect(entry.locator("pre")).to_contain_text('File "shop/prices.py", line 7, in as_cents')
    expect(seen.tab("next").locator("tbody tr")).to_have_count(20)
    expect(seen.tab("audit")).to_contain_text("No actions yet")


def test_a_worker_has_a_page_and_can_be_stopped(
    look: Open, make: Make, shop: list[Client], tmp_path: Path
) -> None:
    log = tmp_path / "w.log"
    log.write_text("DEBUG: Crawled (200) <GET https://a.example/>\nINFO: <b>the last line</b>\n")
    name = shop[0].name
    about = {"host": socket.gethostname(), "pid": 1, "version": "0.1.0", "scrapy": "2.19.0", "log": str(log)}
    shop[0].open(about=json.dumps(about))
    seen = look(make(actions=True, logs=str(tmp_path)))
    page = seen.open()
    panel = page.locator("#panel-workers")
    panel.get_by_role("link", name=name).click()
    expect(page).to_have_url(re.compile(f"#/s/shop/workers/{name}$"))
    expect(panel.locator("h2")).to_have_text(name)
    expect(panel.locator("tbody:visible tr")).to_have_count(8)
    expect(panel.locator("tbody:visible tr").first).to_contain_text("https://")
    expect(panel.locator(".log")).to_contain_text("<b>the last line</b>")
    panel.locator("input[name=text]").fill("crawled (")
    panel.get_by_role("button", name="Search").click()
    expect(panel.locator(".log")).to_have_text("DEBUG: Crawled (200) <GET https://a.example/>")
    expect(panel).to_contain_text("1 line with")
    panel.locator("input[name=text]").fill("")
    panel.get_by_role("button", name="Search").click()
    expect(panel.locator(".log")).to_contain_text("the last line")
    panel.get_by_role("button", name="Stop this worker").click()
    assert f"Worker {name} of spider shop would close" in seen.confirm()
    expect(panel.locator(".badge:visible")).to_have_text("closing")
    assert [one.say().order for one in shop[:2]] == ["stop", ""]
    page.reload()
    expect(panel.locator("h2")).to_have_text(name)
    panel.get_by_role("link", name="All workers").click()
    expect(panel.get_by_role("link", name=shop[1].name)).to_be_visible()
    seen.expected = ("404",)
    page.goto(f"{seen.url}#/s/shop/workers/nobody")
    expect(panel).to_contain_text("have no such worker")


def test_a_url_is_explained(seen: Watched) -> None:
    page = seen.open("#/s/shop/explain")
    page.locator("input[name=url]").fill("https://www.books.example/page/300")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".verdict")).to_contain_text("It will be crawled when its turn comes")
    expect(page.locator("#panel-explain .facts")).to_contain_text("in slot www.books.example")


def test_the_explanation_of_a_crawled_url_has_its_time_and_its_worker(
    look: Open, make: Make, shop: list[Client], redis_url: str
) -> None:
    url = "https://a.example/page"
    ended = Outcome(url_digest(url), worker_digest(shop[0].name), int(time.time()) - 60, 404)
    shop[0].say(outcomes=ended.to_wire())
    page = look(make()).open("#/s/shop/explain")
    page.locator("input[name=url]").fill(url)
    page.get_by_role("button", name="Explain").click()
    facts = page.locator("#panel-explain .facts")
    expect(facts).to_contain_text(f"HTTP status 404 (Not Found), at worker {shop[0].name}")
    expect(facts.locator("dd").nth(4)).to_contain_text(re.compile(r"\d+:\d\d"))


def test_a_chart_begins_at_its_first_sample(look: Open, make: Make, server: redis.Redis) -> None:
    push(worker(server, "young"), {"a.example": 4})
    history(server, "young", [5, 7, 9], [900, 850, 800])
    seen = look(make())
    page = seen.open("#/s/young")
    queue = page.locator(".chart.second:visible")
    expect(queue.locator(".stroke")).to_have_attribute("d", re.compile("^M.+L.+"))
    points = str(queue.locator(".stroke").get_attribute("d")).count(",")
    assert points <= 4
    expect(queue.locator(".xs span").first).to_have_text(re.compile(r"^[234]0 s ago$"))
    page.goto(f"{seen.url}#/")
    line = page.locator(".spider .stroke")
    assert str(line.get_attribute("d")).count(",") <= 4


def test_no_card_grows_when_its_value_changes(
    look: Open, make: Make, server: redis.Redis, redis_url: str
) -> None:
    one = worker(server, "calm")
    push(one, {"a.example": 4})
    seen = look(make())
    page = seen.open("#/s/calm")
    tiles = page.locator(".tiles")
    height = tiles.bounding_box()
    Slots(View.from_settings(Settings({"REDIS_URL": redis_url}), "calm")).block("a.example", 598)
    one.say(want=1)
    expect(tiles).to_contain_text(re.compile("next turn in 9 min 5[0-9] s"))
    assert tiles.bounding_box() == height


def test_forms_side_by_side_are_in_the_same_rows(seen: Watched) -> None:
    panel = seen.open("#/s/shop/seed").locator("#panel-seed")
    for tag in ("h2", "textarea", "button"):
        boxes = [one.bounding_box() for one in panel.locator(tag).all()]
        assert len({round(box["y"]) for box in boxes if box}) == 1, tag
    text, placeholder = seen.page.evaluate(
        """() => { const one = document.querySelector("textarea");
            return [getComputedStyle(one).color, getComputedStyle(one, "::placeholder").color]; }"""
    )
    assert text != placeholder
    assert text == seen.page.evaluate("getComputedStyle(document.body).color")


def test_a_message_covers_no_form(seen: Watched) -> None:
    page = seen.open("#/s/shop/seed")
    page.locator("textarea[name=seeds]").fill("https://new.example/1")
    page.get_by_role("button", name="Push seeds").click()
    seen.confirm()
    seen.said()
    toast, form = page.locator("#toast").bounding_box(), page.locator("#panel-seed").bounding_box()
    assert toast is not None
    assert form is not None
    assert toast["y"] + toast["height"] < form["y"]


def test_the_words_of_the_cards_are_explained_by_pointer_and_by_keyboard(look: Open, app: Any) -> None:
    page = look(app, viewport=NARROW).open()
    for name, word in (("leased", "In hand"), ("alive", "Wanted"), ("left", "Next turn")):
        hint = page.locator(".tile", has=page.locator(f"[data-name={name}]")).locator(".hint")
        tip = hint.get_by_role("tooltip")
        expect(tip).to_be_hidden()
        hint.focus()
        expect(tip).to_be_visible()
        assert word.lower() in tip.inner_text().lower()
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
        assert hint.get_attribute("aria-describedby") == tip.get_attribute("id")
        hint.blur()
        expect(tip).to_be_hidden()
        hint.hover()
        expect(tip).to_be_visible()
        page.mouse.move(0, 0)


def test_a_small_screen_has_the_tabs_soon(look: Open, app: Any) -> None:
    page = look(app, viewport=NARROW).open()
    box = page.locator("[role=tablist]").bounding_box()
    assert box is not None
    assert box["y"] < NARROW["height"] * 0.8
    charts = page.locator(".charts:visible").bounding_box()
    assert charts is not None
    assert charts["y"] > box["y"]


def test_a_tab_has_an_address_of_its_own(seen: Watched) -> None:
    page = seen.open("#/s/shop/failed")
    expect(page.locator("#panel-failed")).to_be_visible()
    seen.tab("next")
    assert page.url.endswith("#/s/shop/next")
    page.goto(f"{seen.url}#/s/shop/slots")
    expect(page.locator("#panel-slots tbody tr").first).to_be_visible()


def test_pools_are_shown_and_changed(look: Open, app: Any, server: redis.Redis) -> None:
    seen = look(app)
    page = seen.open()
    section = page.locator("[data-name=pools]")
    expect(page.locator("[data-name=limit]")).to_be_visible()
    expect(section).to_be_hidden()
    add_pool(server)
    expect(section).to_contain_text("accounts: 2 items: 2 free, 0 in use")
    alice = section.locator("tbody tr", has_text="alice")
    expect(alice).to_contain_text("free")
    alice.get_by_role("button", name="Rest").click()
    page.locator("input[name=reason]").fill("captcha")
    expect(page.locator("#dialog-text")).to_contain_text("would rest for 600 s")
    page.locator("dialog").get_by_role("button", name="Rest").click()
    expect(alice).to_contain_text("captcha")
    alice.get_by_role("button", name="Retire").click()
    page.locator("dialog").get_by_role("button", name="Retire").click()
    expect(alice).to_contain_text("retired")
    alice.get_by_role("button", name="Use again").click()
    page.locator("dialog").get_by_role("button", name="Use again").click()
    expect(alice).to_contain_text("free")
    section.get_by_role("button", name="Add").click()
    page.locator("input[name=item]").fill('{"user": "carol", "password": "hunter2"}')
    page.locator("dialog").get_by_role("button", name="Add").click()
    carol = section.locator("tbody tr", has_text="carol")
    expect(carol).to_be_visible()
    carol.get_by_role("button", name="Remove").click()
    page.locator("dialog").get_by_role("button", name="Remove").click()
    expect(carol).to_have_count(0)
    assert "hunter2" not in page.content()


@pytest.mark.long
def test_events_are_shown_as_they_come(seen: Watched, view: View) -> None:
    page = seen.open()
    joined = page.locator(".events li[data-type=worker_joined]")
    expect(joined).to_have_count(4)
    Control(view).pause()
    latest = page.locator(".events li").first
    expect(latest).to_contain_text("an operator paused the crawl")
    Control(view).resume()
    expect(latest).to_contain_text("an operator resumed the crawl")


def test_requests_that_are_set_aside_push_no_join_out_of_sight(seen: Watched, server: redis.Redis) -> None:
    def fail(number: int) -> None:
        reason = f"its download failed: DNSLookupError: no address of host-{number}"
        event = {"time": time.time(), "type": "request_set_aside", "kind": "request", "reason": reason}
        server.xadd("shop:events", {"event": json.dumps({**event, "url": f"http://host-{number}/"})})

    for number in range(150):
        fail(number)
    page = seen.open()
    expect(page.locator(".events li[data-type=worker_joined]")).to_have_count(4)
    latest = page.locator(".events li").first
    expect(latest).to_contain_text("request http://host-149/ is set aside")
    expect(latest).to_contain_text("and 149 others with the same error")
    fail(150)
    expect(latest).to_contain_text("request http://host-150/ is set aside")
    expect(latest).to_contain_text("and 150 others with the same error")
    expect(page.locator(".events li[data-type=request_set_aside]")).to_have_count(1)


def test_all_spiders_are_listed_and_lead_to_theirs(
    look: Open, app: Any, server: redis.Redis, redis_url: str, shop: list[Client]
) -> None:
    fill(server, redis_url, "news")
    page = look(app).open("#/")
    expect(page.locator(".spider")).to_have_count(2)
    page.locator(".spider", has_text="news").click()
    expect(page.locator("h1")).to_have_text("news")
    page.go_back()
    expect(page.locator("h1")).to_have_text("All spiders")


def test_a_frontier_that_is_not_there_is_said_to_be_none(look: Open, make: Make, server: redis.Redis) -> None:
    seen = look(make(actions=True))
    seen.page.goto(f"{seen.url}#/s/nobody")
    expect(seen.page.get_by_text("There is no frontier 'nobody'")).to_be_visible()
    expect(seen.page.locator("[data-name=state]")).to_have_text("unknown")
    for name in STEERING:
        expect(seen.page.get_by_role("button", name=name)).to_be_hidden()
    push(worker(server, "nobody"), {"a.example": 4})
    expect(seen.page.locator("[data-name=waiting]")).to_have_text("4")
    expect(seen.page.locator("#panel-workers tbody tr")).to_have_count(1)
    expect(seen.page.get_by_role("button", name="Pause")).to_be_visible()


STEERING = ("Pause", "Drain", "Resume", "Stop")


def test_a_finished_crawl_has_nothing_to_steer(look: Open, make: Make, server: redis.Redis) -> None:
    worker(server, "done").say()
    server.delete("done:workers", *server.scan_iter("done:worker:*"))
    seen = look(make(actions=True))
    page = seen.open("#/s/done")
    expect(page.locator("[data-name=state]")).to_have_text("finished")
    for name in STEERING:
        expect(page.get_by_role("button", name=name)).to_be_hidden()


def test_an_error_goes_away_with_its_tab(look: Open, make: Make, server: redis.Redis) -> None:
    push(worker(server, "shop"), {"a.example": 4})
    seen = look(make(actions=True))
    seen.expected = ("400",)
    seen.open("#/s/shop/slots")
    seen.page.locator("#panel-slots").get_by_role("button", name="Block").click()
    seen.confirm()
    unblock = seen.page.locator("#panel-slots").get_by_role("button", name="Unblock")
    unblock.wait_for()
    server.delete("shop:meta")
    unblock.click()
    assert "There is no frontier" in seen.said()
    seen.tab("workers")
    expect(seen.page.locator("#toast")).to_be_hidden(timeout=5000)


def test_the_command_that_starts_a_worker_can_be_pasted(look: Open, make: Make, server: redis.Redis) -> None:
    push(worker(server, "my shop"), {"a.example": 4})
    server.delete(*server.scan_iter("my shop:worker*"))
    seen = look(make())
    seen.page.goto(f"{seen.url}#/s/my%20shop")
    expect(seen.page.locator("#panel-workers")).to_contain_text("Start one: scrapy crawl 'my shop'")


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("", id="live", marks=pytest.mark.long),
        pytest.param("delete window.EventSource", id="polling", marks=pytest.mark.long),
    ],
)
def test_a_crawl_in_progress_moves(look: Open, make: Make, fleet: Fleet, script: str) -> None:
    fleet.start("graph", 2, **SLOW)
    wait_until(lambda: fleet.events("downloaded"))
    seen = look(make(), script=script)
    page = seen.open("#/s/graph")
    expect(page.locator("#live")).to_have_text("polling" if script else "live")
    shown: list[float] = []
    deadline = time.monotonic() + 60
    while len(set(shown)) < 4 and time.monotonic() < deadline:
        shown.append(pages_in(page))
        page.wait_for_timeout(200)
    assert shown == sorted(shown)
    assert len(set(shown)) >= 4, shown
    fleet.wait()
    expect(page.locator("[data-name=state]")).to_have_text("finished")
    said = status_of(fleet.redis_url, "graph")
    assert (pages_in(page), said["pages"]) == (400, 400)
    assert seen.number("seen") == said["seen"] == 400


#: A crawl of some ten seconds.
SLOW = {"GRAPH_PAGES": 400, "GRAPH_LATENCY": 0.4, "CONCURRENT_REQUESTS": 8, "SCHEDULER_PERSIST": True}


def pages_in(page: Page) -> float:
    found = re.match(r"([\d,]+) in all", page.locator(".tile small").first.inner_text())
    assert found
    return float(found[1].replace(",", ""))


# -- what it does ----------------------------------------------------------------------------------------


def test_the_crawl_is_paused_resumed_drained_and_stopped(seen: Watched, view: View) -> None:
    page = seen.open()
    state = page.locator("[data-name=state]")
    page.get_by_role("button", name="Pause").click()
    assert "3 workers would begin no page" in seen.confirm()
    assert "3 workers will begin no page" in seen.said()
    expect(state).to_have_text("paused")
    assert read_status(view).state == "paused"
    page.get_by_role("button", name="Resume").click()
    expect(state).to_have_text("crawling")
    page.get_by_role("button", name="Drain").click()
    assert "3 workers would finish the requests in hand" in seen.confirm()
    expect(state).to_have_text("draining")
    page.get_by_role("button", name="Resume").click()
    expect(state).to_have_text("crawling")
    page.get_by_role("button", name="Stop").click()
    assert "3 workers would close" in seen.confirm()
    expect(state).to_have_text("stopping")
    assert [entry["action"] for entry in Audit(view).latest()] == [
        "stop",
        "resume",
        "drain",
        "resume",
        "pause",
    ]


def test_an_unconfirmed_action_is_not_done(seen: Watched, view: View) -> None:
    page = seen.open()
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("dialog")).to_be_hidden()
    page.get_by_role("button", name="Stop").click()
    page.locator("#dialog-text").wait_for()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_be_hidden()
    assert read_status(view).state == "crawling"
    assert Audit(view).latest() == []


def test_seeds_are_pushed_and_urls_forgotten(seen: Watched, server: redis.Redis) -> None:
    page = seen.open("#/s/shop/seed")
    page.locator("textarea[name=seeds]").fill("https://new.example/1\n\n# not this\nhttps://new.example/2\n")
    page.get_by_role("button", name="Push seeds").click()
    assert "2 seeds would be pushed to 'shop:start_urls'" in seen.confirm()
    assert "2 seeds were pushed" in seen.said()
    assert server.lrange("shop:start_urls", -2, -1) == [b"https://new.example/1", b"https://new.example/2"]
    expect(page.locator("[data-name=seeds]")).to_have_text("5")
    page.locator("textarea[name=urls]").fill("https://www.books.example/page/5\nhttps://never.example/")
    page.get_by_role("button", name="Forget URLs").click()
    assert "1 of 2 URLs would be forgotten" in seen.confirm()
    expect(page.locator("#toast")).to_contain_text("was forgotten")
    expect(page.locator("[data-name=seen]")).to_have_text("1,353")


def test_a_bad_seed_is_refused_in_words(seen: Watched, server: redis.Redis) -> None:
    page = seen.open("#/s/shop/seed")
    seen.expected = ("400",)
    page.locator("textarea[name=seeds]").fill("no url")
    page.get_by_role("button", name="Push seeds").click()
    expect(page.locator("#dialog-text")).to_contain_text("Nothing was pushed: all seeds are invalid")
    expect(page.locator("dialog button[type=submit]")).to_be_hidden()
    assert server.llen("shop:start_urls") == 3


def test_failed_requests_are_put_back_and_forgotten(seen: Watched, server: redis.Redis) -> None:
    seen.open("#/s/shop/failed")
    panel = seen.page.locator("#panel-failed")
    group = panel.locator(".group", has_text="workers died")
    group.locator("summary").click()
    group.get_by_role("button", name="Try all again").click()
    assert "3 entries of the failed list would be put back" in seen.confirm()
    expect(group).to_have_count(0)
    assert server.llen("shop:failed") == 14
    group = panel.locator(".group", has_text="TimeoutError")
    group.locator("summary").first.click()
    group.locator(".entry").first.get_by_role("button", name="Forget").click()
    assert "1 entry of the failed list would be removed for good" in seen.confirm()
    expect(group.locator(".entry")).to_have_count(6)
    expect(group.locator("summary b").first).to_have_text("6")
    group.get_by_role("button", name="Forget all").click()
    seen.confirm()
    expect(group).to_have_count(0)
    expect(seen.page.locator("[data-name=failed]")).to_have_text("7")


def test_failed_requests_are_grouped_by_error_with_their_hosts_and_searched(
    look: Open, make: Make, server: redis.Redis
) -> None:
    worker(server, "shop").say()
    for number in range(12):
        reason = f"its download failed: DNSLookupError: no results for hostname lookup: h{number % 3}.example"
        server.rpush("shop:failed", failed_entry(number, reason, f"http://h{number % 3}.example/{number}"))
    seen = look(make(actions=True))
    page = seen.open("#/s/shop/failed")
    panel = page.locator("#panel-failed")
    expect(panel.locator(".group")).to_have_count(1)
    panel.locator(".group > summary").click()
    expect(panel.locator(".entry")).to_have_count(12)
    panel.get_by_role("button", name="h1.example").click()
    expect(panel.locator(".entry")).to_have_count(4)
    panel.get_by_role("button", name="h1.example").click()
    expect(panel.locator(".entry")).to_have_count(12)
    panel.get_by_label("Search by URL").fill("example/1")
    expect(panel.locator(".entry")).to_have_count(3)
    panel.get_by_role("button", name="Forget all").click()
    assert "3 entries of the failed list would be removed" in seen.confirm()
    expect(panel.get_by_text("No entry has such a URL")).to_be_visible()
    panel.get_by_label("Search by URL").fill("")
    panel.locator(".group > summary").click()
    expect(panel.locator(".entry")).to_have_count(9)
    assert server.llen("shop:failed") == 9


@pytest.mark.long
def test_a_slot_is_blocked_set_and_free_again(seen: Watched, server: redis.Redis) -> None:
    page = seen.open("#/s/shop/slots")
    row = page.locator("#panel-slots tr", has_text="images.example.org")
    row.get_by_role("button", name="Block").click()
    question = page.locator("#dialog-text", has_text="would be blocked for 600 s")
    expect(question).to_be_visible()
    page.locator("dialog input[name=seconds]").fill("300")
    question = page.locator("#dialog-text", has_text="would be blocked for 300 s")
    expect(question).to_contain_text("138 waiting requests")
    page.get_by_role("button", name="Block", exact=True).last.click()
    expect(row).to_contain_text("blocked")
    row.get_by_role("button", name="Unblock").click()
    expect(row).not_to_contain_text("blocked")
    row.get_by_role("button", name="Set").click()
    page.locator("dialog input[name=delay]").fill("1.5")
    page.locator("#dialog-text", has_text="would keep delay=1.5").wait_for()
    page.locator("dialog button[type=submit]").click()
    expect(row).to_contain_text("1.5 s (set)")
    row.get_by_role("button", name="Reset").click()
    seen.confirm()
    expect(row).not_to_contain_text("(set)")
    assert not server.hexists("shop:slots:limits", "set images.example.org")


def test_a_dialog_does_only_the_action_that_it_describes(seen: Watched, server: redis.Redis) -> None:
    page = seen.open("#/s/shop/slots")
    seen.expected = ("400",)
    row = page.locator("#panel-slots tr", has_text="images.example.org")
    row.get_by_role("button", name="Set").click()
    effect, button = page.locator("#dialog-text"), page.locator("dialog button[type=submit]")
    expect(button).to_be_disabled()
    concurrency = page.locator("dialog input[name=concurrency]")
    concurrency.fill("1.5")
    expect(button).to_be_enabled()
    button.click()
    assert page.evaluate("document.querySelector('[name=concurrency]').validity.stepMismatch")
    concurrency.fill("2")
    assert button.is_disabled()
    expect(effect).to_contain_text("would keep concurrency=2")
    server.delete("shop:meta")
    button.click()
    expect(effect).to_contain_text("There is no frontier of spider 'shop'")
    expect(page.locator("dialog")).to_be_visible()


def test_a_list_of_all_slots_is_not_called_a_selection(look: Open, make: Make, server: redis.Redis) -> None:
    push(worker(server, "small"), {"a.example": 4})
    seen = look(make())
    seen.page.goto(f"{seen.url}#/s/small/slots")
    expect(seen.page.locator("#panel-slots .note", has_text="slot")).to_have_text("1 slot.")


def test_the_audit_list_is_shown(seen: Watched) -> None:
    page = seen.open()
    page.get_by_role("button", name="Pause").click()
    seen.confirm()
    row = seen.tab("audit").locator("tbody tr").first
    expect(row).to_contain_text("127.0.0.1")
    expect(row).to_contain_text("Spider shop is paused: 3 workers")


def test_a_page_that_only_shows_has_nothing_to_press(look: Open, make: Make, shop: list[Client]) -> None:
    seen = look(make())
    page = seen.open()
    expect(page.locator("#mode")).to_have_text("read-only")
    for name in ("Pause", "Drain", "Resume", "Stop", "Block", "Forget", "Push seeds"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    expect(page.locator("#tab-seed")).to_have_count(0)
    for tab in ("slots", "failed"):
        panel = seen.tab(tab)
        panel.locator("tr, .group").first.wait_for()
        expect(panel.get_by_role("button")).to_have_count(0)


# -- what comes from Redis is hostile --------------------------------------------------------------------

ATTACKS = [
    "<img src=x onerror=window.pwned=1>",
    "javascript:window.pwned=1",
    '"><script>window.pwned=1</script>',
    "' onmouseover='window.pwned=1",
    "data:text/html,<script>window.pwned=1</script>",
    "https://a.example/<svg onload=window.pwned=1>\u202egpj.exe",
    "JaVaScRiPt:window.pwned=1//https://a.example",
    "\x01javascript:window.pwned=1",
    "</title><script>window.pwned=1</script>{{7*7}}${7*7}",
]


def hostile(server: redis.Redis, redis_url: str) -> str:
    """Have every text of a frontier be an attack; return the spider's name."""
    spider = ATTACKS[0]
    about = dict.fromkeys(("host", "version", "scrapy"), ATTACKS[0])
    client = Client(server, ATTACKS[3], "priority", 30, 5, keys=worker(server, spider).frontier.keys)
    client.open(about=json.dumps(about))
    entries = [json.dumps({"url": url, "callback": url, "method": url}).encode() for url in ATTACKS]
    client.say(pushes=[Push("filter", f"fp{n}", 0, entry, f"<b>{n}") for n, entry in enumerate(entries)])
    server.rpush(f"{spider}:start_urls", *ATTACKS)
    for number, text in enumerate(ATTACKS):
        fields = {"traceback": text, "worker": text, "history": text, "id": text}
        server.rpush(f"{spider}:failed", failed_entry(number, text, text, **fields))
    audit = Audit(View.from_settings(Settings({"REDIS_URL": redis_url}), spider))
    for text in ATTACKS:
        audit.note(text, text, {text: text}, text)
        event = {"v": 1, "time": time.time(), "type": text, "spider": text, "worker": text, "text": text}
        server.xadd(f"{spider}:events", {"event": json.dumps(event)})
    server.hset(f"{spider}:meta", mapping={"unshared_reason": ATTACKS[0], "unshared": 90, "found": 100})
    return spider


def test_nothing_that_comes_from_redis_is_run(
    look: Open, make: Make, server: redis.Redis, redis_url: str
) -> None:
    spider = hostile(server, redis_url)
    seen = look(make(actions=True))
    page = seen.open("#/")
    expect(page.locator(".spider h2")).to_have_text(spider)
    page.locator(".spider").click()
    page.wait_for_selector("[data-name=waiting]:not(:empty)")
    page.locator(".events li").first.wait_for()
    for tab in TABS:
        panel = seen.tab(tab)
        page.wait_for_timeout(300)
        for summary in panel.locator("summary:visible").all():
            summary.click()
        page.wait_for_timeout(200)
        for cell in panel.locator("td:visible, .entry:visible").all()[:40]:
            cell.hover()
        check(page)
    for attack in ATTACKS:
        seen.expected = ("400", "429")
        seen.tab("explain")
        page.locator("input[name=url]").fill(attack)
        page.get_by_role("button", name="Explain").click()
        expect(page.get_by_role("button", name="Explain")).to_be_enabled()
        check(page)
    row = seen.tab("slots").locator("tbody tr").first
    row.get_by_role("button", name="Block").click()
    page.locator("#dialog-text", has_text="would be blocked").wait_for()
    check(page)


def test_nothing_that_comes_from_the_history_is_run(look: Open, make: Make, server: redis.Redis) -> None:
    crawls = []
    for text in ATTACKS:
        about = dict.fromkeys(("host", "version", "scrapy", "log"), text)
        crawls.append(
            {
                "spider": text,
                "state": text,
                "reason": text,
                "aside": {text: 1},
                "workers": [{"name": text, "about": json.dumps(about), "joined": 1}],
                "largest": [[text, 1, 1]],
                "settings": json.dumps({text: text}),
            }
        )
    past(server, "news", *crawls)
    seen = look(make(actions=True))
    page = seen.page
    for run in range(1, len(ATTACKS) + 1):
        page.goto(f"{seen.url}#/s/news/history/{run}")
        expect(page.locator("[data-name=crawl] h2").first).to_have_text(f"Crawl {run}")
        check(page)
    for route in ("#/s/news/history", "#/"):
        page.goto(f"{seen.url}{route}")
        page.wait_for_selector("[data-name=last-crawl], .spider")
        check(page)


def check(page: Page) -> None:
    """Check that nothing was run, and that there is nothing that would be if it was pressed."""
    assert page.evaluate("window.pwned") is None
    foreign = page.evaluate(
        """() => [...document.querySelectorAll("script, img, iframe, object, embed, base, b b")]
            .map((one) => one.outerHTML).filter((html) => !html.includes("static/"))"""
    )
    assert foreign == []
    links = page.evaluate(
        "() => [...document.querySelectorAll('a')].map((a) => [a.protocol, a.rel, a.target])"
    )
    assert {protocol for protocol, _, _ in links} <= {"http:", "https:"}
    assert all(rel == "noreferrer noopener" for _, rel, target in links if target)
    handlers = page.evaluate(
        """() => [...document.querySelectorAll("*")].flatMap((one) => one.getAttributeNames())
            .filter((name) => name.startsWith("on"))"""
    )
    assert handlers == []
    assert "\u202e" not in page.inner_text("body")


#: A page of another site that tries all that a browser lets it try.
ATTACK = """
<form id=form method=post enctype=text/plain target=there action="DASHBOARD/api/v1/stop">
  <input name='{"spider": "shop", "x": "' value='"}'></form>
<iframe name=there></iframe><iframe name=framed src="DASHBOARD/"></iframe>
<script>
  window.results = [];
  const body = '{"spider": "shop"}', headers = {"Content-Type": "application/json"};
  const said = (promise) => promise.then((r) => results.push(r.type), () => results.push("blocked"));
  said(fetch("DASHBOARD/api/v1/stop", {method: "POST", body, mode: "no-cors"}));
  said(fetch("DASHBOARD/api/v1/stop", {method: "POST", body, headers}));
  said(fetch("DASHBOARD/api/v1/status?spider=shop"));
  said(fetch("DASHBOARD/api/v1/status?spider=shop", {mode: "no-cors"}));
  new EventSource("DASHBOARD/api/v1/stream").onmessage = () => results.push("streamed");
  document.getElementById("form").submit();
</script>
"""


class _Attacker(BaseHTTPRequestHandler):
    page = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.page)

    def log_message(self, *_: Any) -> None:
        pass


def test_a_page_of_another_site_can_do_nothing_and_read_nothing(
    browser: Browser, app: Any, view: View, server: redis.Redis
) -> None:
    attacker = ThreadingHTTPServer(("127.0.0.1", 0), _Attacker)
    threading.Thread(target=attacker.serve_forever, daemon=True).start()
    with serving(app) as url:
        _Attacker.page = ATTACK.replace("DASHBOARD", url).encode()
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{attacker.server_port}/")
        page.wait_for_function("results.length >= 4")
        page.wait_for_timeout(1500)
        assert set(page.evaluate("results")) <= {"blocked", "opaque"}
        assert {frame.url for frame in page.frames if frame.name == "framed"} == {
            "chrome-error://chromewebdata/"
        }
        page.close()
    attacker.shutdown()
    assert read_status(view).state == "crawling"
    assert not server.hexists("shop:meta", "stop")
    assert Audit(view).latest() == []


# -- wherever it is, and whatever is away ----------------------------------------------------------------


@pytest.mark.parametrize("path", ["/crawls", "/a/b%20c"])
def test_it_works_under_a_prefix(look: Open, app: Any, path: str, view: View) -> None:
    seen = look(Starlette(routes=[Mount(path.replace("%20", " "), app)]), path)
    page = seen.open()
    expect(page.locator("#live")).to_have_text("live")
    page.get_by_role("button", name="Pause").click()
    seen.confirm()
    expect(page.locator("[data-name=state]")).to_have_text("paused")
    assert page.url.startswith(seen.url)


PASSWORD = "a-good-password-of-tests"


@pytest.mark.long
def test_the_link_logs_a_browser_in_until_it_logs_out(look: Open, app: Any) -> None:
    seen = look(app, is_logged_in=False)
    seen.expected = ("401",)
    page = seen.page
    page.goto(f"{seen.url}#/s/shop")
    expect(
        page.get_by_text("Open the link that scrapy frontier dashboard --actions has printed")
    ).to_be_visible()
    page.goto(f"{seen.url}?token={TOKEN}#/s/shop")
    expect(page.locator("#live")).to_have_text("live")
    assert page.url == f"{seen.url}#/s/shop/workers"
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Pause").click()
    seen.confirm()
    expect(page.locator("[data-name=state]")).to_have_text("paused")
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["expires"]) == (True, "Strict", -1)
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert page.context.cookies() == []
    page.goto(f"{seen.url}?other#/s/shop")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


@pytest.mark.parametrize("path", ["", "/crawls"])
def test_the_password_logs_a_browser_in_until_it_logs_out(
    look: Open, make: Make, shop: list[Client], path: str
) -> None:
    app = make({"FRONTIER_DASHBOARD_PASSWORD": PASSWORD}, actions=True)
    seen = look(Starlette(routes=[Mount(path, app)]) if path else app, path, is_logged_in=False)
    seen.expected = ("401",)
    page = seen.page
    page.goto(f"{seen.url}#/s/shop")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("The password is wrong")).to_be_visible()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("h1")).to_have_text("shop")
    expect(page.locator("#live")).to_have_text("live")
    page.get_by_role("button", name="Pause").click()
    seen.confirm()
    expect(page.locator("[data-name=state]")).to_have_text("paused")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Password")).to_be_visible()
    assert page.context.cookies() == []


@pytest.mark.long
def test_a_page_shows_the_login_when_its_session_ends(look: Open, app: Any) -> None:
    seen = look(app)
    seen.expected = ("401",)
    page = seen.open()
    page.context.clear_cookies()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


@pytest.mark.parametrize("query", ["", "?token=of-an-earlier-start"])
def test_a_link_on_another_site_leads_a_browser_with_a_session_to_the_page(
    look: Open, app: Any, query: str
) -> None:
    seen = look(app)
    # The first request has no cookie, since it comes from another site.
    seen.expected = ("401",)
    other = ThreadingHTTPServer(("127.0.0.1", 0), _Attacker)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    _Attacker.page = f'<a href="{seen.url}{query}#/s/shop">a link</a>'.encode()
    # Another port is the same site, another name is not.
    seen.page.goto(f"http://localhost:{other.server_port}/")
    seen.problems.clear()
    seen.page.get_by_text("a link").click()
    expect(seen.page.locator("h1")).to_have_text("shop")
    expect(seen.page.locator("#live")).to_have_text("live")
    other.shutdown()


def test_redis_may_go_away_and_come_back(look: Open, tmp_path: Path) -> None:
    own = PrivateRedis(tmp_path).start()
    client = redis.Redis.from_url(own.url)
    fill(client, own.url)
    seen = look(create_app(Settings({"REDIS_URL": own.url})))
    page = seen.open("#/s/shop/slots")
    waiting = seen.number("waiting")
    # The list of slots may be asked for just then.
    seen.expected = ("503",)
    own.stop()
    expect(page.locator("#live")).to_have_text("Redis is away")
    expect(page.locator("#problem")).to_contain_text(f"Redis at {own.url} cannot be reached")
    expect(page.locator("#main")).to_have_class("stale")
    assert seen.number("waiting") == waiting
    own.start()
    fill(client, own.url)
    push(worker(client, "shop", 9), {"more.example": 7})
    expect(page.locator("#live")).to_have_text("live")
    expect(page.locator("#problem")).to_be_hidden()
    expect(page.locator("#main")).not_to_have_class("stale")
    now = read_status(View.from_settings(Settings({"REDIS_URL": own.url}), "shop")).waiting
    assert now > waiting
    expect(page.locator("[data-name=waiting]")).to_have_text(f"{now:,}")
    own.stop()


@pytest.mark.parametrize("route", ["#/", "#/s/shop"])
def test_redis_may_come_later_than_the_page(look: Open, tmp_path: Path, route: str) -> None:
    own = PrivateRedis(tmp_path)
    url = own.url
    seen = look(create_app(Settings({"REDIS_URL": url})))
    page = seen.page
    page.goto(seen.url + route)
    expect(page.locator("#live")).to_have_text("Redis is away")
    expect(page.locator("#problem")).to_contain_text(f"Redis at {url} cannot be reached")
    expect(page.get_by_text("This Redis has no crawl")).to_be_hidden()
    with own:
        fill(redis.Redis.from_url(url), url)
        expect(page.locator("#live")).to_have_text("live")
        expect(page.get_by_text("1,322").first).to_be_visible()


def test_the_dashboard_may_end_and_come_back(browser: Browser, app: Any) -> None:
    with serving(app) as url:
        page = browser.new_page()
        page.goto(f"{url}/?token={TOKEN}#/s/shop")
        expect(page.locator("#live")).to_have_text("live")
    expect(page.locator("#live")).to_have_text("no answer")
    expect(page.locator("#problem")).to_contain_text("The dashboard does not answer")
    expect(page.locator("#main")).to_have_class("stale")
    page.close()


# -- for everybody ---------------------------------------------------------------------------------------


def test_everything_can_be_done_by_keyboard(seen: Watched, view: View) -> None:
    page = seen.open()
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.locator("#tab-workers").focus()
    for tab in ("slots", "failed", "history", "next"):
        page.keyboard.press("ArrowRight")
        expect(page.locator(f"#tab-{tab}")).to_be_focused()
        expect(page.locator(f"#panel-{tab}")).to_be_visible()
    page.keyboard.press("Home")
    expect(page.locator("#panel-workers")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#tab-audit")).to_be_focused()
    pause = page.get_by_role("button", name="Pause")
    pause.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(pause).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    expect(page.locator("dialog button[type=submit]")).to_be_enabled()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("[data-name=state]")).to_have_text("paused")


@pytest.mark.long
def test_a_focused_button_keeps_the_focus_while_the_picture_changes(
    seen: Watched, shop: list[Client]
) -> None:
    page = seen.open("#/s/shop/slots")
    row = page.locator("#panel-slots tr", has_text="api.books.example")
    button = row.get_by_role("button", name="Set", exact=True)
    button.focus()
    for _ in range(3):
        shop[0].say(want=3, pages=3)
        page.wait_for_timeout(1500)
        expect(button).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_a_small_screen_shows_all_of_it(look: Open, app: Any, scheme: str) -> None:
    seen = look(app, viewport=NARROW, color_scheme=scheme)
    page = seen.open()
    for tab in TABS:
        panel = seen.tab(tab)
        page.wait_for_timeout(300)
        if tab == "failed":
            panel.locator("summary").first.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"], tab


def test_light_and_dark_go_by_the_system(look: Open, app: Any) -> None:
    seen = look(app, color_scheme="light")
    page = seen.open()
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(colour) != light


def test_reduced_motion_has_no_animations(look: Open, app: Any) -> None:
    page = look(app, reduced_motion="reduce").open()
    moving = page.evaluate("document.getAnimations().length")
    assert moving == 0
