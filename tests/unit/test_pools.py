"""What a pool is in the settings, and what a worker does with the items that it has."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import time
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware
from scrapy.http import Response
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from scrapy_rq_sched.codec.pools import (
    Pool,
    PoolItem,
    entries,
    item_in,
    lane_of,
    name_of,
    pool_of,
    pools_in,
    proxy_of,
    shown_place,
    typed_place,
)
from scrapy_rq_sched.engine.items import CookieJars
from scrapy_rq_sched.errors import SettingError
from scrapy_rq_sched.frontier.messages import Batch
from scrapy_rq_sched.frontier.replies import Lease, Reply
from scrapy_rq_sched.worker.pools import Pools

SECRET = "hunter2"
URL = "http://a.example/"


def pool(**its: Any) -> Pool:
    (made,) = pools_in("FRONTIER_POOLS", {"accounts": its})
    return made


def ours(*pools: Pool) -> Pools:
    made = Pools(pools or (pool(items=["alice"]),))
    made.stats = MemoryStatsCollector(get_crawler())
    return made


def lease(item: str = "alice", lane: str = "~accounts") -> Lease:
    return Lease("1.1", "request", 0, b"", "a.example", 0.0, lane, item)


def given(pools: Pools, value: Any = "alice", cookies: str = "", item: str = "alice", **meta: Any) -> Request:
    """Return a request that has begun with an item."""
    pools.applied(Reply("1", pool_items=(("accounts", item, json.dumps(value), cookies),)))
    request = Request(URL, meta={"pool": "accounts", **meta})
    pools.begins(request, lease(item))
    return request


def reports(pools: Pools) -> dict[str, Any]:
    """Return the reports of the next batch, by item."""
    batch = Batch(1)
    pools.fill(batch)
    return {item: report for _, item, report in batch.pool_reports}


# -- the setting ---------------------------------------------------------------------------------------


def test_a_pool_is_read_from_the_setting() -> None:
    its = pool(
        items=["alice"],
        rate="2/s",
        concurrency=3,
        rest={"403": 3600, 429: "retry-after", "error": 60},
        retire_after=4,
    )
    assert (its.delay, its.concurrency, its.retire_after) == (0.5, 3, 4)
    assert its.rest == {403: 3600, 429: "retry-after", "error": 60}
    assert its.limits == "500 3 4"


def test_a_pool_in_json_is_the_same() -> None:
    its = {"items": ["alice"], "for": "worker", "kind": "proxy", "rest": {"403": 60}}
    assert pools_in("FRONTIER_POOLS", json.dumps({"p": its})) == pools_in("FRONTIER_POOLS", {"p": its})


@pytest.mark.parametrize(
    "its",
    [
        SECRET,
        {"itmes": [SECRET]},
        {"items": SECRET},
        {"items": {SECRET: 1}},
        {"items": [SECRET], "for": "ever"},
        {"items": [SECRET], "kind": "car"},
        {"items": [SECRET], "delay": -1},
        {"items": [SECRET], "concurrency": 1.5},
        {"items": [SECRET], "concurrency": 0},
        {"items": [SECRET], "rest": {"often": 1}},
        {"items": [SECRET], "rest": {403: "soon"}},
        {"items": [SECRET], "rest": {99: 1}},
        {"items": [SECRET], "rest": [403]},
        {"items": [SECRET], "rest": {403: True}},
        {"items": [SECRET], "retire_after": -1},
        {"items": [SECRET], "headers": ["x"]},
        {"items": [SECRET], "meta": {"x": 1}},
    ],
)
def test_a_pool_that_is_not_valid_is_refused_and_no_item_is_shown(its: Any) -> None:
    with pytest.raises(SettingError, match=r"FRONTIER_POOLS\['accounts'\]") as refused:
        pools_in("FRONTIER_POOLS", {"accounts": its})
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("value", ["{", [SECRET], {"": {}}, {1: {}}, f'"{SECRET}"'])
def test_a_setting_that_has_no_pools_is_refused_and_not_shown(value: Any) -> None:
    with pytest.raises(SettingError, match="FRONTIER_POOLS must be") as refused:
        pools_in("FRONTIER_POOLS", value)
    assert SECRET not in str(refused.value)


def test_the_text_of_a_pool_shows_no_item() -> None:
    assert SECRET not in repr(pool(items=[{"name": "alice", "password": SECRET}]))


# -- items ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "kind", "name"),
    [
        ("alice", "", "alice"),
        (" alice ", "", "alice"),
        ("10.0.0.1:8080", "proxy", "10.0.0.1:8080"),
        (f"http://alice:{SECRET}@proxy.example:80/", "proxy", "alice@proxy.example:80"),
        (f"alice:{SECRET}@proxy.example:80", "proxy", "alice@proxy.example:80"),
        ("http://proxy.example:80", "proxy", "proxy.example:80"),
        (f"http://proxy.example:80:alice:{SECRET}", "", "proxy.example:80"),
        (f"proxy.example:80:alice:{SECRET}", "", "proxy.example:80"),
        (f"alice:{SECRET}", "", "alice"),
        ("alice:1234", "", "alice"),
        ("alice@mail.example:1234", "", "alice@mail.example"),
        ("alice@mail.example:Secr@t", "", "alice@mail.example"),
        ("[fe80::1%eth0]:80", "proxy", "[fe80::1%eth0]:80"),
        ("proxy:1234", "proxy", "proxy:1234"),
        ("10.0.0.1:1234", "", "10.0.0.1:1234"),
        (f"[::1]:80:alice:{SECRET}", "", "[::1]:80"),
        (f"http://proxy.example#{SECRET}", "", "proxy.example"),
        (f"http://proxy.example?key={SECRET}", "", "proxy.example"),
        ("[::1]:80", "proxy", "[::1]:80"),
        ({"name": "A", "user": "alice"}, "", "A"),
        ({"username": "alice", "password": SECRET}, "", "alice"),
    ],
)
def test_the_name_of_an_item_has_nothing_secret(value: Any, kind: str, name: str) -> None:
    assert name_of(value, kind) == name


def test_the_name_of_a_key_is_a_hash_of_it() -> None:
    assert SECRET not in name_of(SECRET, "key")
    assert name_of(SECRET, "key") == name_of(SECRET, "key") != name_of("other", "key")


@pytest.mark.parametrize("value", ["", "  ", 5, None, {}, {"password": SECRET}, {"name": ""}, ["alice"]])
def test_an_item_without_a_name_is_refused_and_not_shown(value: Any) -> None:
    with pytest.raises(SettingError, match=r"FRONTIER_POOLS\['accounts'\]: items: an item") as refused:
        list(entries(pool(items=[value]), ()))
    assert SECRET not in str(refused.value)


def test_a_limit_of_an_item_that_is_not_valid_is_refused_and_not_shown() -> None:
    with pytest.raises(SettingError, match="an item must be valid") as refused:
        list(entries(pool(items=[{"name": "alice", "delay": SECRET}]), ()))
    assert SECRET not in str(refused.value)


def test_a_slash_in_the_name_of_a_pool_is_no_separator() -> None:
    assert Pool("a/b").wire_name == "a%2Fb"
    assert pool_of(lane_of("", "a/b")) == "a/b"


def test_two_items_with_one_name_are_refused() -> None:
    items = [f"http://alice:{SECRET}@p.example", "http://alice:other@p.example"]
    with pytest.raises(SettingError, match=r"two items are named 'alice@p\.example'") as refused:
        list(entries(pool(items=items), ()))
    assert SECRET not in str(refused.value)


def test_an_item_that_is_listed_twice_is_one() -> None:
    assert len({name for name, _, _ in entries(pool(items=["alice", "alice"]), ["alice"])}) == 1


def test_the_lines_of_a_file_are_items(tmp_path: Path) -> None:
    path = tmp_path / "accounts"
    path.write_text('# of the shop\nalice\n\n{"name": "bob", "delay": 2}\n')
    assert list(entries(pool(file=str(path)), ())) == [
        ("alice", '"alice"', "- -"),
        ("bob", '{"name": "bob", "delay": 2}', "2000 -"),
    ]


@pytest.mark.parametrize("line", ['{"name": "hunter2"', '{"password": "hunter2"}'])
def test_a_line_that_is_no_item_is_named_and_not_shown(tmp_path: Path, line: str) -> None:
    path = tmp_path / "accounts"
    path.write_text(f"alice\n{line}\n")
    with pytest.raises(SettingError, match=r"line 2 of .*/accounts") as refused:
        list(entries(pool(file=str(path)), ()))
    assert SECRET not in str(refused.value)


def test_a_file_that_is_missing_is_named() -> None:
    with pytest.raises(SettingError, match="the file 'nowhere' cannot be read"):
        list(entries(pool(file="nowhere"), ()))


def test_a_template_with_a_field_that_an_item_lacks_is_refused_at_the_start() -> None:
    with pytest.raises(
        SettingError, match="'alice' of pool 'accounts' lacks a field of the template"
    ) as refused:
        list(
            entries(pool(items=[{"name": "alice", "key": SECRET}], headers={"Authorization": "{token}"}), ())
        )
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("template", ["{item[abc]}", "{item.x}", "{0}", "{", "{item!z}"])
def test_a_template_that_cannot_be_filled_is_refused_at_the_start(template: str) -> None:
    with pytest.raises(SettingError, match="of the template"):
        list(entries(pool(items=["alice"], headers={"X": template}), ()))


def test_a_proxy_needs_a_url() -> None:
    assert proxy_of("p.example:80") == "http://p.example:80"
    assert proxy_of({"name": "p", "url": "https://p.example"}) == "https://p.example"
    with pytest.raises(SettingError, match="a proxy must be a URL") as refused:
        list(entries(pool(items=[{"name": "p", "password": SECRET}], kind="proxy"), ()))
    assert SECRET not in str(refused.value)


def test_text_that_begins_with_a_brace_is_json() -> None:
    assert item_in(' {"name": "alice"}') == {"name": "alice"}
    assert item_in(" alice ") == "alice"


def test_an_item_is_stored_with_a_request_as_its_name_only() -> None:
    item = PoolItem.make("accounts", "alice", {"password": SECRET})
    assert item == "alice"
    assert json.dumps(item) == '"alice"'
    assert SECRET.encode() not in pickle.dumps(item)
    assert type(pickle.loads(pickle.dumps(item))) is str
    assert copy.deepcopy({"item": item})["item"].value == {"password": SECRET}


@pytest.mark.parametrize(("needs", "lane"), [("", "~a%20b"), ("browser|gpu", "browser|gpu|~a%20b")])
def test_the_pool_is_the_last_need_of_a_lane(needs: str, lane: str) -> None:
    assert lane_of(needs, "a b") == lane
    assert pool_of(lane) == "a b"
    assert pool_of(needs) == ""


def test_the_place_of_requests_with_a_pool_is_shown_in_words_and_found_by_them() -> None:
    place = f"shop.example|{lane_of('browser', 'a b')}"
    assert shown_place(place) == "shop.example|browser|pool a b"
    assert typed_place(shown_place(place)) == place
    assert shown_place("shop.example") == typed_place("shop.example") == "shop.example"


# -- requests that are found ---------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["acounts", 5, ["accounts"], "", True])
def test_a_request_of_an_unknown_pool_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="must be one of the pools in FRONTIER_POOLS"):
        ours().lane(Request(URL, meta={"pool": value}), "")


def test_a_request_cannot_have_the_item_of_a_worker() -> None:
    with pytest.raises(ValueError, match=r"whose items are for requests \(none\)"):
        ours(pool(items=["alice"], **{"for": "worker"})).lane(Request(URL, meta={"pool": "accounts"}), "")


def test_without_any_pool_the_field_is_left_alone_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    pools = Pools(())
    for _ in range(2):
        assert pools.lane(Request(URL, meta={"pool": {"x": 1}}), "browser") == "browser"
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_queue_of_the_users_own_ignores_pools_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    pools = ours()
    pools.are_kept = False
    assert pools.lane(Request(URL, meta={"pool": "accounts"}), "") == ""
    assert "SCHEDULER_QUEUE_CLASS" in caplog.text


def test_a_copy_of_a_request_has_nothing_of_its_item() -> None:
    pools = ours(pool(items=["alice"], kind="proxy", headers={"X-Key": "{item}"}, meta={"region": "{name}"}))
    request = given(pools, f"http://alice:{SECRET}@p.example", keep="this")
    request.headers["Cookie"] = f"sid={SECRET}"
    request.headers["Proxy-Authorization"] = SECRET
    request.meta["_auth_proxy"] = SECRET
    retried = request.copy()
    pools.forget_given(retried)
    assert retried.meta == {"pool": "accounts", "keep": "this"}
    assert not retried.headers
    assert SECRET not in str(retried.to_dict())
    assert "proxy" in request.meta


def test_a_request_with_another_meta_has_no_header_of_an_item() -> None:
    pools = ours(pool(kind="proxy", headers={"X-Key": "{item}"}))
    cookies_of(pools)
    request = given(pools, f"http://alice:{SECRET}@p.example")
    request.headers.update({"Cookie": f"sid={SECRET}", "Proxy-Authorization": SECRET, "X-Other": "stays"})
    replaced = request.replace(meta={"pool": "accounts"})
    pools.forget_given(replaced)
    assert dict(replaced.headers) == {b"X-Other": [b"stays"]}


def test_a_request_cannot_choose_its_item(caplog: pytest.LogCaptureFixture) -> None:
    pools = ours()
    chosen = Request(URL, meta={"pool": "accounts", "pool_item": given(pools).meta["pool_item"]})
    pools.forget_given(chosen)
    assert "pool_item" not in chosen.meta
    assert "is ignored" in caplog.text


def test_a_field_of_other_code_with_the_same_name_stays() -> None:
    request = Request(URL, meta={"pool_item": "theirs", "proxy": "http://theirs"})
    Pools(()).forget_given(request)
    assert request.meta == {"pool_item": "theirs", "proxy": "http://theirs"}


# -- requests that begin, and end ----------------------------------------------------------------------


def test_a_request_has_its_item_with_its_value() -> None:
    item = given(ours(), {"name": "alice", "password": SECRET}).meta["pool_item"]
    assert item == "alice"
    assert item.value["password"] == SECRET
    assert item.pool == "accounts"


def test_a_proxy_is_set_unless_the_request_has_one() -> None:
    pools = ours(pool(items=["p.example"], kind="proxy"))
    assert given(pools, "p.example").meta["proxy"] == "http://p.example"
    assert given(pools, "p.example", proxy="http://own").meta["proxy"] == "http://own"


def test_templates_are_filled() -> None:
    pools = ours(pool(headers={"Authorization": "Bearer {key}"}, meta={"region": "{region}-1"}))
    request = given(pools, {"name": "alice", "key": SECRET, "region": "eu"})
    assert request.headers["Authorization"] == f"Bearer {SECRET}".encode()
    assert request.meta["region"] == "eu-1"


def test_a_redirect_to_another_host_has_no_headers_of_the_item() -> None:
    pools = ours(pool(headers={"Authorization": "Bearer {item}"}))
    assert "Authorization" in given(pools, redirect_urls=["http://a.example/before"]).headers
    assert (
        "Authorization" not in given(pools, redirect_urls=["http://b.example/", "http://a.example/x"]).headers
    )


def test_a_redirect_that_is_no_longer_encrypted_has_no_headers_of_the_item() -> None:
    pools = ours(pool(headers={"Authorization": "Bearer {item}"}))
    assert "Authorization" not in given(pools, redirect_urls=["https://a.example/"]).headers


def test_an_item_without_the_field_of_a_template_begins_no_request() -> None:
    with pytest.raises(ValueError, match="lacks a field of the template") as refused:
        given(ours(pool(headers={"Authorization": "{key}"})), {"name": "alice", "password": SECRET})
    assert SECRET not in str(refused.value)


def test_each_item_has_cookies_of_its_own() -> None:
    pools = ours()
    assert given(pools).meta["cookiejar"] == "accounts/alice"
    assert given(pools, "bob", item="bob").meta["cookiejar"] == "accounts/bob"
    assert given(pools, cookiejar="own").meta["cookiejar"] == "own"
    assert "cookiejar" not in given(ours(pool(items=["alice"], cookies=False))).meta


#: Older Scrapys give the methods of a middleware the spider, too.
_OF_SPIDER = signature(CookiesMiddleware.process_request).parameters.get("spider")
SPIDER = (None,) if _OF_SPIDER is not None and _OF_SPIDER.default is Parameter.empty else ()


def cookies_of(pools: Pools) -> CookiesMiddleware:
    middleware = CookiesMiddleware()
    pools.jars = CookieJars(middleware)
    return middleware


def answer(middleware: CookiesMiddleware, request: Request, cookie: str) -> None:
    middleware.process_response(request, Response(URL, headers={"Set-Cookie": cookie}), *SPIDER)


def test_cookies_of_an_answer_are_reported_when_the_request_ends_and_are_there_for_the_next() -> None:
    pools = ours()
    middleware = cookies_of(pools)
    request = given(pools)
    answer(middleware, request, f"sid={SECRET}; Path=/")
    assert reports(pools) == {}
    pools.finished(request)
    stored = reports(pools)["alice"]["cookies"]

    other = ours()
    middleware = cookies_of(other)
    request = given(other, cookies=stored)
    middleware.process_request(request, *SPIDER)
    assert request.headers["Cookie"] == f"sid={SECRET}".encode()
    other.finished(request)
    assert "cookies" not in reports(other).get("alice", {})


def test_cookies_that_another_program_has_changed_are_forgotten() -> None:
    pools = ours()
    middleware = cookies_of(pools)
    request = given(pools, cookies='[["garbage"]]')
    middleware.process_request(request, *SPIDER)
    assert "Cookie" not in request.headers


def test_a_request_of_code_of_the_spider_uses_its_item() -> None:
    pools = ours(pool(kind="proxy"))
    item = given(pools, "p.example").meta["pool_item"]
    inline = Request(URL, meta={"pool_item": item})
    pools.give(inline)
    assert inline.meta["proxy"] == "http://p.example"
    assert inline.meta["cookiejar"] == "accounts/alice"


def test_a_redirect_of_a_request_of_code_of_the_spider_has_no_key_at_another_host() -> None:
    pools = ours(pool(headers={"X-Key": "{item}"}))
    inline = Request(URL, meta={"pool_item": given(pools, SECRET).meta["pool_item"]})
    pools.give(inline)
    assert inline.headers["X-Key"] == SECRET.encode()
    redirected = inline.replace(url="http://b.example/", meta={**inline.meta, "redirect_urls": [URL]})
    pools.give(redirected)
    assert "X-Key" not in redirected.headers
    assert redirected.meta["pool_item"] == "alice"


def test_a_request_of_code_of_the_spider_with_a_copy_of_a_pages_meta_uses_its_item() -> None:
    pools = ours(pool(headers={"X-Key": "{item}"}))
    inline = Request(URL, meta=dict(given(pools).meta))
    pools.give(inline)
    assert inline.headers["X-Key"] == b"alice"


@pytest.mark.parametrize("value", [["accounts"], {"a": 1}, 5, "nope"])
def test_a_queued_request_of_an_unknown_pool_is_not_crawled_without_an_item(value: Any) -> None:
    pools, request = ours(), Request(URL, meta={"pool": value})
    assert pools.lacks_item(request, lease(item=""))
    with pytest.raises(ValueError, match="must be one of the pools"):
        pools.lane(request, "")
    assert not pools.cannot_have_item(request)


def test_a_request_of_code_of_the_spider_keeps_the_delay_of_its_item() -> None:
    pools = ours(pool(delay=5))
    request = given(pools)
    pools.hear(request, 200, lambda name: None)
    inline = Request(URL, meta={"pool_item": request.meta["pool_item"]})
    pools.give(inline)
    now = time.monotonic()
    assert 4 < pools.may_be_sent_at(inline) - now <= 5.1
    assert 9 < pools.may_be_sent_at(inline) - now <= 10.1
    assert pools.may_be_sent_at(Request(URL)) == 0


# -- answers -------------------------------------------------------------------------------------------


def hear(pools: Pools, request: Request, status: int, retry_after: str | None = None) -> None:
    pools.hear(request, status, lambda name: retry_after if name == "Retry-After" else None)


def test_an_answer_for_which_an_item_rests_is_reported_at_once() -> None:
    pools = ours(pool(rest={403: 3600}))
    hear(pools, given(pools), 403)
    assert pools.has_news
    report = reports(pools)["alice"]
    assert (report["rest"], report["why"], report["bad"]) == (3_600_000, "status 403", 1)
    assert report["ago"] >= 0


@pytest.mark.parametrize(("header", "seconds"), [("7", 7), (None, 60), ("rubbish", 60)])
def test_the_site_says_for_how_long_an_item_rests(header: str | None, seconds: int) -> None:
    pools = ours(pool(rest={429: "retry-after"}))
    hear(pools, given(pools), 429, header)
    assert reports(pools)["alice"]["rest"] == 1000 * seconds


def test_a_good_answer_ends_the_row_of_bad_ones() -> None:
    pools = ours(pool(rest={403: 1}))
    request = given(pools)
    for status in (403, 403, 200, 403):
        hear(pools, request, status)
    report = reports(pools)["alice"]
    assert (report["good"], report["bad"]) == (True, 1)


def test_a_failure_counts_if_the_settings_say_so() -> None:
    pools = ours(pool(rest={"error": 30}))
    pools.miss(given(pools), "ConnectionRefusedError")
    report = reports(pools)["alice"]
    assert (report["rest"], report["why"]) == (30_000, "ConnectionRefusedError")
    pools = ours()
    pools.miss(given(pools), "ConnectionRefusedError")
    assert "rest" not in reports(pools)["alice"]


def test_the_delay_begins_with_the_end_of_a_request_without_an_answer() -> None:
    pools = ours(pool(delay=5, rest={"error": 60}))
    pools.end(given(pools))
    report = reports(pools)["alice"]
    assert report.keys() == {"ago"}


def test_a_retry_keeps_a_cookie_header_of_its_own() -> None:
    pools = ours()
    request = given(pools, dont_merge_cookies=True)
    request.headers["Cookie"] = "mine=1"
    retried = request.copy()
    pools.forget_given(retried)
    assert retried.headers["Cookie"] == b"mine=1"


def test_an_answer_about_the_item_does_not_concern_the_site() -> None:
    pools = ours(pool(rest={429: 60}))
    assert pools.concern(("accounts",), 429)
    assert not pools.concern(("accounts",), 503)
    assert not pools.concern((), 429)


def test_code_of_the_spider_lets_an_item_rest_or_retires_it() -> None:
    pools = ours()
    item = given(pools).meta["pool_item"]
    item.rest(5, "of course")
    assert reports(pools)["alice"]["rest"] == 5000
    item.rest(0)
    assert "retire" not in reports(pools)["alice"]
    item.rest(float("inf"))
    assert reports(pools)["alice"]["rest"] == 366 * 86_400_000
    item.rest(float("nan"))
    assert "rest" not in reports(pools)["alice"]
    item.retire("")
    assert reports(pools)["alice"]["retire"]
    item.retire("its password is wrong")
    assert reports(pools)["alice"] == {"retire": "its password is wrong"}


def test_a_retired_item_is_logged_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    pools = ours()
    pools.applied(Reply("1", retired_items=(("accounts", "alice", "status 403", True),)))
    assert "Item 'alice' of pool 'accounts' is retired: status 403" in caplog.text
    assert pools.stats.get_value("frontier/pool_retired") == 1


def test_the_retirement_of_the_last_item_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    ours().applied(Reply("1", retired_items=(("accounts", "alice", "banned", False),)))
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
    assert "All items of pool 'accounts' are retired" in caplog.text


# -- for the life of a worker --------------------------------------------------------------------------


def for_life(**its: Any) -> Pools:
    return ours(pool(**{"items": ["alice"], "for": "worker", **its}))


def own(pools: Pools, item: str = "alice", value: Any = "alice", cookies: str = "") -> None:
    pools.applied(Reply("1", own_items=(("accounts", item, json.dumps(value), cookies),)))


def test_a_worker_begins_nothing_without_its_item() -> None:
    pools = for_life()
    assert pools.block(0) is not None
    own(pools)
    assert pools.block(0) is None
    pools.applied(Reply("1", lacks_item="accounts"))
    assert pools.block(0) is not None
    own(pools)
    assert pools.block(0) is None


def test_a_worker_begins_nothing_with_an_item_that_rests() -> None:
    pools = for_life(rest={403: 60})
    own(pools)
    request = Request(URL)
    pools.begins(request, Lease("1.1", "request", 0, b""))
    hear(pools, request, 403)
    assert pools.block(time.monotonic()) is not None
    own(pools, "bob", "bob")
    assert pools.block(time.monotonic()) is None


def test_a_callback_finds_the_item_of_its_page_though_the_worker_has_lost_it() -> None:
    pools = for_life(rest={403: 60})
    own(pools)
    request = Request(URL)
    pools.begins(request, Lease("1.1", "request", 0, b""))
    pools.applied(Reply("1", lacks_item="accounts"))
    assert pools.own["accounts"] == "alice"
    batch = Batch(1)
    pools.fill(batch)
    assert (batch.own_items, batch.own_in_flight) == ({"accounts": ""}, ["accounts"])
    own(pools, "bob", "bob")
    hear(pools, request, 403)
    assert reports(pools).keys() == {"alice"}
    assert request.meta["pool_item"] == "alice"


def test_the_items_of_a_worker_are_for_its_spider() -> None:
    pools = for_life()
    seen = pools.own
    own(pools, value={"name": "alice", "password": SECRET})
    assert seen["accounts"].value["password"] == SECRET


def test_every_request_of_a_worker_uses_its_item() -> None:
    pools = for_life(kind="proxy")
    own(pools, value="p.example")
    request = Request(URL)
    pools.begins(request, Lease("1.1", "request", 0, b""))
    assert request.meta["proxy"] == "http://p.example"
    assert request.meta["pool_item"] == "alice"


def test_a_robots_txt_goes_through_the_proxy_of_the_worker() -> None:
    pools = for_life(kind="proxy")
    own(pools, value="p.example")
    robots = Request("http://a.example/robots.txt")
    pools.give(robots)
    assert robots.meta["proxy"] == "http://p.example"


def test_a_page_waits_for_the_delay_after_its_robots_txt() -> None:
    pools = for_life(delay=5)
    own(pools)
    page, robots = Request(URL), Request("http://a.example/robots.txt")
    pools.begins(page, Lease("1.1", "request", 0, b""))
    pools.give(robots)
    assert pools.may_be_sent_at(robots) == 0
    assert 4.9 < pools.may_be_sent_at(page) - time.monotonic() <= 5


def test_a_worker_waits_for_the_answer_and_the_delay_of_its_item() -> None:
    pools = for_life(delay=5)
    own(pools)
    request, now = Request(URL), time.monotonic()
    pools.begins(request, Lease("1.1", "request", 0, b""))
    block = pools.block(now)
    assert block is not None
    assert block.until is None
    hear(pools, request, 200)
    pools.finished(request)
    block = pools.block(now)
    assert block is not None
    assert block.until is not None
    assert 4.9 < block.until - now < 6
    assert pools.block(now + 6) is None


def test_the_limits_of_an_item_hold_in_the_worker() -> None:
    pools = for_life(delay=1)
    own(pools, value={"name": "alice", "rate": "12/m"})
    request = Request(URL)
    pools.begins(request, Lease("1.1", "request", 0, b""))
    hear(pools, request, 200)
    assert 4.9 < pools.may_be_sent_at(request) - time.monotonic() <= 5


def test_workers_that_share_an_item_for_their_lives_can_have_no_delay() -> None:
    with pytest.raises(SettingError, match="concurrency must be 1"):
        pool(items=["alice"], delay=1, concurrency=2, **{"for": "worker"})
    with pytest.raises(SettingError, match="must be valid"):
        list(entries(pool(items=[{"name": "alice", "concurrency": 2}], delay=1, **{"for": "worker"}), ()))


def test_an_answer_is_reported_at_once_if_others_wait_for_its_item() -> None:
    pools = ours(pool(delay=1, concurrency=2))
    request = given(pools)
    hear(pools, request, 200)
    assert pools.has_news
    assert reports(pools)["alice"]["leases"] == ["1.1"]


def test_a_field_of_a_request_stays_though_an_item_has_the_same() -> None:
    pools = ours(pool(headers={"Accept-Language": "{lang}"}, meta={"lang": "{lang}"}))
    given(pools, {"name": "alice", "lang": "en"})
    with_pool = Request(URL, meta={"pool": "accounts", "lang": "en"})
    pools.forget_given(with_pool)
    assert with_pool.meta["lang"] == "en"
    without = Request(URL, headers={"Accept-Language": "en"})
    pools.forget_given(without)
    assert without.headers["Accept-Language"] == b"en"


def test_older_cookies_of_redis_do_not_replace_newer_ones() -> None:
    pools = for_life()
    middleware = cookies_of(pools)
    own(pools)
    request = Request(URL)
    pools.begins(request, Lease("1.1", "request", 0, b""))
    answer(middleware, request, "sid=new; Path=/")
    own(pools, cookies="")
    pools.finished(request)
    assert "new" in reports(pools)["alice"]["cookies"]


def test_a_request_with_a_pool_keeps_no_field_of_another_item() -> None:
    pools = ours(pool(kind="proxy"))
    page = given(pools, "p.example")
    child = Request(
        URL, meta={"pool": "accounts", "proxy": page.meta["proxy"], "cookiejar": page.meta["cookiejar"]}
    )
    pools.forget_given(child)
    assert child.meta == {"pool": "accounts"}


def test_a_worker_has_no_more_leases_than_its_item_allows() -> None:
    pools = for_life(delay=1)
    own(pools)
    assert pools.most == 4
    assert ours().most == float("inf")


def test_a_worker_asks_for_its_item_until_it_closes() -> None:
    pools, batch = for_life(), Batch(1)
    pools.fill(batch)
    assert batch.own_items == {"accounts": ""}
    own(pools)
    pools.fill(batch := Batch(2))
    assert batch.own_items == {"accounts": "alice"}
    pools.closing = True
    pools.fill(batch := Batch(3))
    assert batch.own_items == {}


# -- secrets -------------------------------------------------------------------------------------------


def test_no_log_shows_the_value_or_the_cookies_of_an_item(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    pools = ours(pool(rest={403: 60}, kind="proxy"))
    request = given(pools, f"http://alice:{SECRET}@p.example", cookies=f'[["{SECRET}"]]')
    hear(pools, request, 403)
    request.meta["pool_item"].retire("banned")
    pools.applied(Reply("1", retired_items=(("accounts", "alice", "banned", True),)))
    pools.finished(request)
    life = for_life()
    own(life, value={"name": "alice", "password": SECRET}, cookies=SECRET)
    assert caplog.records
    assert SECRET not in caplog.text
