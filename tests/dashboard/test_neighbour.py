"""A program on the same machine, also a worker with a hostile seed, can do nothing without the login."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.dashboard import create_app
from scrapy_rq_sched.errors import SettingError
from scrapy_rq_sched.inspect import View, read_status
from scrapy_rq_sched.inspect.audit import Audit

from ..support.client import Client
from ..support.crawl import Fleet, wait_until
from .asgi import TOKEN, ask
from .test_command import Served
from .test_guard import NOWHERE

pytestmark = pytest.mark.single("the workers here have the keys of a single server")


@pytest.fixture
def steering(tmp_path: Path, redis_url: str, shop: list[Client]) -> Iterator[Served]:
    """A process of ``scrapy frontier dashboard --actions``, without a password."""
    one = Served(tmp_path / "log", redis_url, "--actions")
    yield one
    one.process.kill()
    one.process.wait()


def send(
    url: str, path: str, method: str = "GET", headers: dict[str, str] | None = None, body: str = ""
) -> tuple[int, dict[str, str], bytes]:
    """Return the status, the headers and the body of one answer; no redirect is followed."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 0, timeout=30)
    connection.request(method, parts.path + path, body or None, headers or {})
    response = connection.getresponse()
    found = {name.lower(): value for name, value in response.getheaders()}
    data = response.read()
    connection.close()
    return response.status, found, data


def forged(url: str) -> dict[str, str]:
    """Return the headers by which a program pretends to be the dashboard's own page."""
    origin = url.rstrip("/")
    return {"Origin": origin, "Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}


def opened(link: str) -> tuple[dict[str, str], str]:
    """Open the link; return the headers of the answer, and the cookie."""
    page, _, query = link.partition("?")
    status, headers, _ = send(page, f"?{query}")
    assert status == 303
    return headers, headers["set-cookie"].partition(";")[0]


# -- without the link ------------------------------------------------------------------------------------


def test_a_forged_action_of_a_program_is_refused(steering: Served, view: View) -> None:
    body = json.dumps({"spider": "shop"})
    status, _, data = send(steering.url, "api/v1/pause", "POST", forged(steering.url), body)
    assert (status, "Open the link" in json.loads(data)["error"]) == (401, True)
    assert read_status(view).state == "crawling"
    assert Audit(view).latest() == []


@pytest.mark.long
def test_a_seed_cannot_make_a_worker_pause_another_spider(
    steering: Served, view: View, fleet: Fleet, server: redis.Redis
) -> None:
    seed = {
        "url": f"{steering.url}api/v1/pause",
        "method": "POST",
        "headers": forged(steering.url),
        "body": json.dumps({"spider": "shop"}),
        "meta": {"handle_httpstatus_all": True},
    }
    server.rpush("seeds:start_urls", json.dumps(seed))
    fleet.start("seeds", MAX_IDLE_TIME_BEFORE_CLOSE=1, environment={"REAL_DOWNLOADS": "1"}, forked=False)
    fleet.wait()
    # On a slow machine the workers of the shop, which say nothing more, may be dead by now.
    assert not server.hexists("shop:meta", "state")
    assert Audit(view).latest() == []
    assert "downloader/response_status_count/401': 1" in fleet.log()


def test_a_page_with_actions_shows_nothing_without_the_link(steering: Served) -> None:
    paths = ("", "api/v1/status", "api/v1/stream", "static/app.js", "metrics", "nowhere")
    assert {path: send(steering.url, path)[0] for path in paths} == dict.fromkeys(paths, 401)


def test_a_wrong_token_opens_nothing(steering: Served) -> None:
    for token in ("", "x", TOKEN, "%ff%00", "%C3%A4"):
        status, headers, _ = send(steering.url, f"?token={token}")
        assert (status, "set-cookie" in headers) == (401, False), token


def test_a_browser_without_the_link_is_told_to_open_it(steering: Served) -> None:
    status, headers, page = send(steering.url, "", headers={"Accept": "text/html,*/*;q=0.8"})
    assert (status, headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert b"Open the link that <code>scrapy frontier dashboard --actions</code> has printed" in page


# -- with the link ---------------------------------------------------------------------------------------


def test_the_link_sets_a_cookie_and_leaves_the_address(steering: Served) -> None:
    headers, cookie = opened(steering.link)
    port = urlsplit(steering.url).port
    assert re.fullmatch(rf"frontier-{port}=[\w-]{{43}}", cookie)
    attributes = set(headers["set-cookie"].lower().split("; ")[1:])
    assert attributes == {"httponly", "path=/", "samesite=strict"}
    assert (headers["location"], headers["referrer-policy"]) == ("./", "no-referrer")
    assert send(steering.url, "api/v1/about", headers={"Cookie": cookie})[0] == 200


def test_a_browser_with_the_cookie_does_actions(steering: Served, view: View) -> None:
    headers = {"Cookie": opened(steering.link)[1], **forged(steering.url)}
    body = json.dumps({"spider": "shop"})
    assert send(steering.url, "api/v1/pause", "POST", headers, body)[0] == 200
    assert read_status(view).state == "paused"


def test_another_site_cannot_use_the_cookie(steering: Served) -> None:
    headers = {"Cookie": opened(steering.link)[1], "Content-Type": "application/json"}
    for origin in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "same-site"}, {}):
        assert send(steering.url, "api/v1/pause", "POST", {**headers, **origin}, "{}")[0] == 403


def test_a_program_sends_the_token_as_a_bearer_token(steering: Served) -> None:
    token = steering.link.partition("token=")[2]
    assert send(steering.url, "api/v1/about", headers={"Authorization": f"Bearer {token}"})[0] == 200


def test_the_token_is_printed_once(steering: Served) -> None:
    token = steering.link.partition("token=")[2]
    opened(steering.link)
    send(steering.url, f"?token={token}x")
    wait_until(lambda: "has refused 1 login" in steering.said())
    assert steering.stop() == 0
    assert steering.said().count(token) == 1
    assert steering.said().count("\n") == 2


def test_each_start_has_another_token(tmp_path: Path, redis_url: str, steering: Served) -> None:
    other = Served(tmp_path / "other", redis_url, "--actions")
    try:
        assert other.link.partition("?")[2] != steering.link.partition("?")[2]
        token = steering.link.partition("?")[2]
        assert send(other.url, f"?{token}")[0] == 401
        # Browsers send a cookie to all ports of a host.
        assert send(other.url, "", headers={"Cookie": opened(steering.link)[1]})[0] == 401
    finally:
        other.process.kill()
        other.process.wait()


def test_the_link_has_the_path_of_a_proxy(tmp_path: Path, redis_url: str) -> None:
    one = Served(tmp_path / "log", redis_url, "--actions", "--root-path", "/my crawls/")
    try:
        assert "/my%20crawls/?token=" in one.link
        headers, cookie = opened(one.link)
        assert "path=/my%20crawls/" in headers["set-cookie"].lower()
        assert send(one.url, "", headers={"Cookie": cookie})[0] == 200
    finally:
        one.process.kill()
        one.process.wait()


def test_a_program_cannot_choose_its_address_without_a_proxy(steering: Served) -> None:
    headers = {"Authorization": "Bearer wrong", "X-Forwarded-For": "203.0.113.9"}
    assert send(steering.url, "api/v1/about", headers=headers)[0] == 401
    wait_until(lambda: "has refused 1 login" in steering.said())
    assert "from 127.0.0.1\n" in steering.said()
    assert "203.0.113.9" not in steering.said()


def test_a_proxy_at_the_ipv6_address_of_the_machine_names_the_address_of_its_client(
    tmp_path: Path, redis_url: str
) -> None:
    proxied = ("--host", "::1", "--allowed-host", "ops.example", "--actions")
    one = Served(tmp_path / "log", redis_url, *proxied)
    try:
        headers = {"Authorization": "Bearer wrong", "X-Forwarded-For": "203.0.113.9"}
        assert send(one.url, "api/v1/about", headers=headers)[0] == 401
        wait_until(lambda: "from 203.0.113.9\n" in one.said())
    finally:
        one.process.kill()
        one.process.wait()


# -- in an application -----------------------------------------------------------------------------------


def test_an_application_with_actions_needs_a_login() -> None:
    with pytest.raises(SettingError, match="A dashboard with actions needs a login") as error:
        create_app(Settings(NOWHERE), actions=True)
    for remedy in ("FRONTIER_DASHBOARD_PASSWORD", "authenticate=", "token=secrets.token_urlsafe()"):
        assert remedy in str(error.value)


@pytest.mark.parametrize("given", [{"token": TOKEN}, {"authenticate": lambda connection: None}])
def test_an_application_may_give_any_login(given: dict[str, str]) -> None:
    assert ask(create_app(Settings(NOWHERE), actions=True, **given), "/").status == 401


def test_a_token_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(SettingError, match="token must have at least 20 characters"):
        create_app(Settings(NOWHERE), actions=True, token="x" * 19)


@pytest.mark.parametrize(
    ("root_path", "scheme", "host", "expected"),
    [
        ("", "http", "127.0.0.1:8000", ("frontier-8000", "path=/", False)),
        ("/crawls", "http", "[::1]:8001", ("frontier-8001", "path=/crawls/", False)),
        ("/a b", "https", "localhost", ("frontier-443", "path=/a%20b/", True)),
    ],
)
def test_the_cookie_belongs_to_one_dashboard(
    root_path: str, scheme: str, host: str, expected: tuple[str, str, bool]
) -> None:
    app = create_app(Settings(NOWHERE), token=TOKEN)
    options = {"root_path": root_path, "scheme": scheme}
    answer = ask(app, f"/?token={TOKEN}", headers={"Host": host}, **options)
    name, _, rest = answer.headers["set-cookie"].lower().partition("=")
    attributes = rest.split("; ")
    assert (name, attributes[2], "secure" in attributes) == expected
    cookie = answer.headers["set-cookie"].partition(";")[0]
    # A cookie of another path with the same name may come first or last.
    for sent in (cookie, f"{name}=other; {cookie}", f"{cookie}; x; {name}=other"):
        headers = {"Host": host, "Cookie": sent}
        assert ask(app, "/api/v1/about", headers=headers, **options).status == 200
