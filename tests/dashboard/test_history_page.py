"""The history of crawls in a real browser: the list, one crawl beside another, and the end of a crawl."""

from __future__ import annotations

import json
import re
import socket
import time
from pathlib import Path
from typing import Any

import pytest
import redis
from playwright.sync_api import Browser, Locator, Page, expect
from scrapy.settings import Settings

from scrapy_rq_sched.dashboard import create_app
from scrapy_rq_sched.embedded import PrivateRedis
from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.inspect.slots import Slots
from scrapy_rq_sched.keys import Keys

from ..support.crawl import Fleet, wait_until
from .asgi import TOKEN
from .browser import NARROW, Watched
from .conftest import Make, Open
from .filled import failed_entry, history, past, push, worker
from .test_api import printed

pytestmark = pytest.mark.single("the workers here have the keys of a single server")

expect.set_options(timeout=30_000)


def figure(page: Page, name: str) -> tuple[str, str]:
    """Return the value of a card, and the text below it."""
    card = page.locator(".tile", has=page.locator(f"[data-name={name}]"))
    return card.locator("dd").inner_text(), card.locator("small").inner_text()


def row(table: Locator, text: str) -> str:
    return re.sub(r"\s+", " ", table.locator("tbody tr", has_text=text).first.inner_text())


def opened(look: Open, app: Any, route: str, **options: Any) -> Watched:
    """Open a page without a crawl: it has no card of waiting requests."""
    seen = look(app, **options)
    seen.page.goto(seen.url + route)
    seen.page.wait_for_selector("h1")
    return seen


# -- the list, and one crawl -----------------------------------------------------------------------------


def test_the_crawls_are_listed_with_their_changes(look: Open, app: Any, server: redis.Redis) -> None:
    past(server, "shop", {}, {"state": "stopped", "pages": 7}, {"items": 190, "errors": 1234})
    panel = look(app).open("#/s/shop/history").locator("#panel-history")
    expect(panel.locator("tbody tr:visible")).to_have_count(4)
    assert "crawling" in row(panel, "Crawl 4")
    assert "2 min finished 400 190 \u221250 % 1,234 17 2 (1 died)" in row(panel, "Crawl 3")
    assert "stopped 7 \u221298 %" in row(panel, "Crawl 2")


def test_a_crawl_is_shown_beside_the_one_before(
    look: Open, app: Any, server: redis.Redis, redis_url: str
) -> None:
    past(server, "shop", {"items": 664}, {"state": "stopped"}, {"items": 412, "reason": "stopped by alice"})
    seen = look(app)
    page = seen.open("#/s/shop/history")
    page.get_by_role("link", name="Crawl 3").click()
    assert page.url.endswith("#/s/shop/history/3")
    crawl = page.locator("[data-name=crawl]")
    expect(crawl.locator("h2").first).to_have_text("Crawl 3")
    assert "412 664 38 % fewer than the last time" in row(crawl, "Items")
    expect(crawl.locator("th", has_text="Crawl 1")).to_be_visible()
    facts = crawl.locator(".facts")
    for text in (
        "stopped by alice",
        "200: 400, 404: 20",
        "210 duplicates",
        "DOWNLOAD_DELAY=0.25",
        "Scrapy 2.19.0",
    ):
        expect(facts).to_contain_text(text)
    for title, text in (("Failed", "download failed 12"), ("Slowest slots", "slow.example.net 120 2.40 s")):
        section = crawl.locator("section", has=page.locator("h3", has_text=title))
        assert text in row(section, text.split(" ")[0])
    assert "died crawler-1 (411) 1 min 420 /log/one" in row(crawl, "died")
    charts = crawl.locator(".chart")
    expect(charts).to_have_count(4)
    expect(charts.first).to_contain_text("3.3 on average, peak 4.2")
    assert f"{printed(redis_url, 'history', 'shop', '3')[0]['peak']:.1f}" == "4.2"
    page.set_viewport_size({"width": 1280, "height": 700})
    page.evaluate("window.scrollTo(0, 0)")
    crawl.get_by_role("link", name="To the failed list").click()
    expect(page.locator("#panel-failed")).to_be_in_viewport()
    expect(page.locator("#panel-failed .group").first).to_be_visible()
    seen.tab("history")
    expect(page.locator("#panel-history tbody tr:visible")).to_have_count(4)


def test_a_worker_that_has_ended_keeps_its_page_and_its_log(
    look: Open, make: Make, server: redis.Redis, tmp_path: Path
) -> None:
    log = tmp_path / "1.log"
    log.write_text("INFO: Ignoring response <404 http://a.example/7>\nINFO: Spider closed (finished)\n")
    about = {"host": socket.gethostname(), "pid": 5, "log": str(log)}
    now = 1000 * int(time.time())
    worker = {"name": "w 1/é", "about": json.dumps(about), "done": "responses=9 200=7 404=2", "joined": now}
    past(server, "shop", {"workers": [{**worker, "left": now}], "done": {"http_errors": 2}}, {"workers": []})
    seen = opened(look, make(logs=str(tmp_path)), "#/s/shop/history/1")
    page = seen.page
    crawl = page.locator("[data-name=crawl]")
    expect(crawl).to_contain_text("search its log for")
    crawl.get_by_role("link", name="w 1/é").click()
    panel = page.locator("#panel-workers")
    expect(panel.locator("h2")).to_have_text("w 1/é")
    expect(panel.locator(".badge:visible")).to_have_text("left")
    expect(panel.locator(".facts")).to_contain_text("9: 200: 7, 404: 2")
    expect(panel.locator(".log")).to_contain_text("Spider closed")
    panel.locator("input[name=text]").fill("ignoring")
    panel.get_by_role("button", name="Search").click()
    expect(panel.locator(".log")).to_have_text("INFO: Ignoring response <404 http://a.example/7>")


def test_a_browser_may_open_many_windows(look: Open, app: Any, browser: Browser) -> None:
    url, context = look(app).url, browser.new_context()
    context.request.get(f"{url}?token={TOKEN}")
    windows = [context.new_page() for _ in range(8)]
    for window in windows:
        window.goto(url + "#/s/shop")
    for window in windows:
        expect(window.locator("h1")).to_have_text("shop")
        expect(window.locator("[data-name=waiting]")).not_to_have_text("")
    expect(windows[-1].locator("#live")).to_have_text("polling")
    context.close()


def test_a_crawl_that_is_not_in_the_history_is_said_to_be_none(
    look: Open, app: Any, server: redis.Redis
) -> None:
    past(server, "shop", {}, {})
    seen = look(app)
    seen.expected = ("404",)
    page = seen.open("#/s/shop/history/77")
    expect(page.get_by_text("has no crawl 77. It has 1 to 2")).to_be_visible()
    page.get_by_role("link", name="All crawls").click()
    expect(page.locator("#panel-history tbody tr:visible")).to_have_count(3)


def test_a_thousand_crawls_are_listed_a_page_at_a_time(look: Open, make: Make, server: redis.Redis) -> None:
    past(server, "shop", *({"pages": 1000 + n} for n in range(1000)))
    page = opened(look, make(), "#/s/shop/history").page
    panel = page.locator("#panel-history")
    expect(panel.locator("tbody tr:visible")).to_have_count(50)
    expect(panel).to_contain_text("1\u201350 of 1,000")
    assert "1,999" in row(panel, "Crawl 1000")
    panel.get_by_role("button", name="Next").click()
    expect(panel).to_contain_text("51\u2013100 of 1,000")
    expect(panel.get_by_role("link", name="Crawl 950")).to_be_visible()
    expect(panel.locator("tbody tr:visible")).to_have_count(50)


def test_the_history_stays_while_redis_is_away(look: Open, tmp_path: Path) -> None:
    own = PrivateRedis(tmp_path).start()
    client = redis.Redis.from_url(own.url)
    past(client, "shop", {}, {})
    seen = opened(look, create_app(Settings({"REDIS_URL": own.url})), "#/s/shop/history")
    page, panel = seen.page, seen.page.locator("#panel-history")
    expect(panel.locator("tbody tr:visible")).to_have_count(2)
    seen.expected = ("503",)
    own.stop()
    expect(page.locator("#live")).to_have_text("Redis is away")
    expect(panel.locator("tbody tr:visible")).to_have_count(2)
    expect(page.locator("[data-name=last-crawl]")).to_be_visible()
    own.start()
    past(client, "shop", {}, {}, {"pages": 77})
    expect(panel.locator("tbody tr:visible")).to_have_count(3)
    expect(page.locator("#main")).not_to_have_class("stale")
    expect(page.locator(".tile small").first).to_have_text("77 in all")
    own.stop()


# -- the crawl as it ended -------------------------------------------------------------------------------


def test_after_its_end_the_page_shows_the_crawl_as_it_was(
    look: Open, make: Make, server: redis.Redis
) -> None:
    past(server, "shop", {"items": 664}, {"items": 412, "reason": "closed by its cap"})
    server.rpush(
        "shop:failed", *(failed_entry(n, "download failed", f"http://a.example/{n}") for n in range(3))
    )
    page = opened(look, make(actions=True), "#/s/shop").page
    expect(page.locator("[data-name=state]")).to_have_text("finished")
    assert figure(page, "per_second") == ("3.3", "400 in all")
    assert figure(page, "items") == ("3.4", "412 in all")
    assert figure(page, "errors") == ("3", "0.03 a second")
    assert figure(page, "responses")[0] == "420"
    assert figure(page, "failed") == ("3", "17 in this crawl")
    assert figure(page, "took")[0] == "2 min"
    last = page.locator("[data-name=last-crawl]")
    expect(last).to_contain_text("after 2 min: closed by its cap")
    expect(last).to_contain_text("Items 412, 38 % fewer than the last time (664)")
    expect(last).to_contain_text("download failed: 12")
    expect(page.locator(".chart:visible")).to_have_count(4)
    expect(page.locator(".chart:visible").first).to_contain_text("3.3 on average, peak 4.2")
    for name in ("waiting", "leased", "left", "limit"):
        expect(page.locator(f"[data-name={name}]")).to_be_hidden()
    last.get_by_role("link", name="All about this crawl").click()
    expect(page.locator("[data-name=crawl] h2").first).to_have_text("Crawl 2")


def test_a_crawl_without_pages_says_its_cause(look: Open, make: Make, server: redis.Redis) -> None:
    past(server, "shop", {"pages": 0, "items": 0, "done": {"exceptions": 1, "refused": 1}})
    page = opened(look, make(), "#/s/shop").page
    expect(page.locator("[data-name=last-crawl] .cause")).to_contain_text("the connection was refused")


def test_the_list_keeps_spiders_without_a_crawl(look: Open, make: Make, server: redis.Redis) -> None:
    past(server, "ended", {})
    server.rpush("failures:failed", failed_entry(1, "download failed", "http://a.example/"))
    server.rpush("seeded:start_urls", "http://a.example/", "http://b.example/")
    push(worker(server, "running"), {"a.example": 3})
    page = opened(look, make(), "#/").page
    expect(page.locator(".spider")).to_have_count(4)
    line = page.locator(".spider", has_text="ended").locator(".last")
    expect(line).to_contain_text("Last crawl: 400 pages, 380 items, 17 failed in 2 min, finished")
    expect(page.locator(".spider", has_text="seeded").locator(".last")).to_have_text(
        "2 seeds for the next crawl"
    )
    expect(page.locator(".spider", has_text="running").locator(".last")).to_be_hidden()
    failures = page.locator(".spider", has_text="failures")
    expect(failures.locator("dd").last).to_have_text("1")
    failures.click()
    page.locator("#tab-failed").click()
    expect(page.locator("#panel-failed .group")).to_have_count(1)


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_a_small_screen_shows_all_of_a_crawl(
    look: Open, make: Make, server: redis.Redis, scheme: str
) -> None:
    long = {"reason": "x" * 200, "settings": json.dumps({"USER_AGENT": "y" * 300})}
    about = {"host": "crawler-1", "pid": 411, "log": f"/var/log/{'w' * 150}/worker.log"}
    worker = {"name": "w1", "about": json.dumps(about), "done": "responses=9", "joined": 1}
    past(server, "shop", {}, {**long, "largest": [["z" * 200, 7, 7]], "slots": 2, "workers": [worker]})
    for route in ("#/", "#/s/shop", "#/s/shop/history", "#/s/shop/history/2"):
        page = opened(look, make(), route, viewport=NARROW, color_scheme=scheme).page
        page.wait_for_selector("text=finished")
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"], route
        rights = page.evaluate(
            "[...document.querySelectorAll('td')].map((c) => c.getBoundingClientRect().right)"
        )
        assert max([0, *rights]) <= NARROW["width"], route


def test_a_crawl_is_watched_through_its_end(look: Open, make: Make, fleet: Fleet) -> None:
    fleet.start("pages", 2, GRAPH_PAGES=200, GRAPH_LATENCY=0.4, CONCURRENT_REQUESTS=8)
    wait_until(lambda: len(fleet.events("downloaded")) > 20)
    seen = look(make())
    page = seen.open("#/s/pages")
    expect(page.locator("[data-name=state]")).to_have_text("crawling")
    expect(page.locator(".tile small").nth(1)).to_have_text(re.compile("^[1-9][0-9]* in all$"))
    fleet.wait()
    expect(page.locator("[data-name=state]")).to_have_text("finished")
    (said,) = printed(fleet.redis_url, "history", "pages", "last")
    for _ in range(2):
        expect(page.locator("[data-name=last-crawl]")).to_be_visible()
        assert figure(page, "per_second") == (f"{said['per_second']:.1f}", "200 in all")
        assert (said["pages"], said["items"]) == (200, 200)
        assert figure(page, "items")[1] == "200 in all"
        assert figure(page, "responses") == (
            f"{said['statuses']['200']}",
            f"200:\u00a0{said['statuses']['200']}",
        )
        assert figure(page, "errors")[0] == f"{said['errors']}"
        chart = page.locator(".chart:visible").first
        assert float(str(re.search(r"peak ([\d.]+)", chart.inner_text())[1])) >= round(said["per_second"], 1)  # type: ignore[index]
        page.reload()
        page.wait_for_selector("h1")
    page.goto(f"{seen.url}#/")
    expect(page.locator(".spider .last")).to_contain_text("Last crawl: 200 pages, 200 items, 0 failed in ")
    page.goto(f"{seen.url}#/s/pages/history/1")
    crawl = page.locator("[data-name=crawl]")
    assert row(crawl, "Items") == "Items 200 \u2013 \u2013"
    expect(
        crawl.locator("section", has=page.locator("h3", has_text="Workers")).locator("tbody tr")
    ).to_have_count(2)


# -- while it runs ---------------------------------------------------------------------------------------


def test_items_errors_and_statuses_are_beside_the_pages(
    look: Open, app: Any, server: redis.Redis, redis_url: str
) -> None:
    server.hset("shop:meta:counts", "done x", "responses=9000 200=8800 404=120 301=60 503=20")
    second = int(server.time()[0]) // 10 * 10
    server.delete("shop:pages")
    server.lpush("shop:pages", *(f"{second - 10 * n} 50 7 200 10 0 31034 17" for n in range(9, -1, -1)))
    page = look(app).open()
    (said,) = printed(redis_url, "status", "shop")
    assert said["items_per_second"] == pytest.approx(4 * said["per_second"])
    items, per_second = figure(page, "items"), figure(page, "per_second")
    assert items[1] == "31,234 in all"
    assert float(items[0]) == pytest.approx(4 * float(per_second[0]), rel=0.1)
    assert figure(page, "errors")[0] == "27"
    assert figure(page, "responses") == ("9,000", "200:\u00a08,800, 404:\u00a0120, 2 more")


def test_the_peak_is_not_below_the_present_speed(look: Open, make: Make, server: redis.Redis) -> None:
    one = worker(server, "young")
    push(one, {"a.example": 4})
    second = int(server.time()[0]) // 10 * 10
    server.hset(Keys("young").worker(one.name), "joined", f"{second - 60}000000")
    # All of these pages were finished in the last second of their ten.
    server.delete("young:pages")
    server.lpush("young:pages", f"{second} 80 900 0 0 9000")
    page = look(make()).open("#/s/young")
    label = page.locator(".chart:visible .plot").first.get_attribute("aria-label")
    found = re.match(r"Pages a second: ([\d.]+) a second now, at most ([\d.]+)", str(label))
    assert found, label
    assert 0 < float(found[1]) <= float(found[2])


def test_no_time_is_left_to_be_told_if_all_slots_are_blocked(
    look: Open, make: Make, server: redis.Redis, redis_url: str
) -> None:
    one = worker(server, "calm")
    push(one, {"a.example": 40})
    history(server, "calm", [50, 50, 50], [140, 90, 40])
    server.hset(Keys("calm").worker(one.name), "joined", f"{int(server.time()[0]) - 60}000000")
    page = look(make()).open("#/s/calm")
    expect(page.locator("[data-name=left]")).not_to_have_text("\u2013")
    Slots(View.from_settings(Settings({"REDIS_URL": redis_url}), "calm")).block("a.example", 598)
    one.say(want=1)
    expect(page.locator("[data-name=left]")).to_have_text("\u2013")
    assert "next turn in 9 min" in figure(page, "left")[1]
