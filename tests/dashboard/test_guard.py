"""Who may look, who may change something, and what every answer says to the browser."""

from __future__ import annotations

import base64
import os
import re
from typing import Any

import pytest
from scrapy.settings import Settings
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Mount, Route

from scrapy_rq_sched.dashboard import create_app
from scrapy_rq_sched.dashboard.actions import ACTIONS
from scrapy_rq_sched.dashboard.app import below
from scrapy_rq_sched.dashboard.entrance import Entrance
from scrapy_rq_sched.dashboard.files import Files
from scrapy_rq_sched.dashboard.guard import LOOPBACK, POLICY, Guard
from scrapy_rq_sched.dashboard.guesses import Guesses, Pace
from scrapy_rq_sched.dashboard.login import Login
from scrapy_rq_sched.errors import SettingError

from .asgi import HOST, TOKEN, Answer, ask, log_in

PASSWORD = "correct horse ünd"
#: Nothing of it is asked.
NOWHERE = {"REDIS_URL": "redis://127.0.0.1:1"}


def basic(user: str = "frontier", password: str = PASSWORD) -> dict[str, str]:
    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {token}"}


def reached(request: Request) -> JSONResponse:
    return JSONResponse({"who": request.state.who})


def guarded(password: str = "", actions: bool = True, hosts: Any = LOOPBACK, **login: Any) -> Guard:
    """Return a guard before what answers everything with 200."""
    app = Starlette(
        routes=[Route("/{path:path}", reached, methods=["GET", "POST", "PUT", "DELETE", "OPTIONS"])]
    )
    known = Login(password, guesses=Guesses(Pace(0, 0)), **login)
    return Guard(app, known, Entrance(known, Files()), actions, hosts)


JSON = {"Content-Type": "application/json"}

# -- forged requests -------------------------------------------------------------------------------------

#: What a browser may say of where a request comes from, and whether it is then the dashboard's own.
ORIGINS: dict[str, tuple[dict[str, str], bool]] = {
    "own page": ({"Sec-Fetch-Site": "same-origin", "Origin": f"http://{HOST}"}, True),
    "own page behind a proxy": ({"Sec-Fetch-Site": "same-origin", "Origin": "https://crawls.example"}, True),
    "own page of an old browser": ({"Origin": f"http://{HOST}"}, True),
    "own page over TLS": ({"Origin": f"https://{HOST}"}, True),
    "another site": ({"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, False),
    "another site that says our origin": (
        {"Sec-Fetch-Site": "cross-site", "Origin": f"http://{HOST}"},
        False,
    ),
    "another port of this machine": ({"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:9"}, False),
    "typed by the user": ({"Sec-Fetch-Site": "none"}, False),
    "another site of an old browser": ({"Origin": "https://evil.example"}, False),
    "another port of an old browser": ({"Origin": "http://127.0.0.1:9"}, False),
    "a file or a sandbox": ({"Origin": "null"}, False),
    "an origin that begins as ours": ({"Origin": f"http://{HOST}.evil.example"}, False),
    "an origin that ends as ours": ({"Origin": f"http://evil.example/{HOST}"}, False),
    "nothing is said": ({}, False),
    "only a referer": ({"Referer": f"http://{HOST}/"}, False),
}
#: What is sent as a login, and whether it is one; and whether a page of another site cannot send it.
LOGINS: dict[str, tuple[dict[str, str], bool, bool]] = {
    "none": ({}, False, False),
    "password": (basic(), True, False),
    "wrong password": (basic(password="wrong"), False, False),
    "wrong user": (basic(user="admin"), False, False),
    "empty": (basic("", ""), False, False),
    "not base64": ({"Authorization": "Basic %%%"}, False, False),
    "no colon": ({"Authorization": "Basic " + base64.b64encode(PASSWORD.encode()).decode()}, False, False),
    "token": ({"Authorization": f"Bearer {PASSWORD}"}, True, True),
    "wrong token": ({"Authorization": "Bearer wrong"}, False, False),
    "empty token": ({"Authorization": "Bearer "}, False, False),
    "another scheme": ({"Authorization": f"Digest {PASSWORD}"}, False, False),
}
BODIES: dict[str, tuple[dict[str, str], bool]] = {
    "json": (JSON, True),
    "json with a charset": ({"Content-Type": "Application/JSON; charset=utf-8"}, True),
    "form": ({"Content-Type": "application/x-www-form-urlencoded"}, False),
    "multipart": ({"Content-Type": "multipart/form-data; boundary=x"}, False),
    "text": ({"Content-Type": "text/plain"}, False),
    "text that names json": ({"Content-Type": "text/plain; application/json"}, False),
    "none": ({}, False),
}


def expected(method: str, own: bool, logged_in: bool, token: bool, json: bool, actions: bool) -> int:
    """Return the status that the rules ask for."""
    if not logged_in:
        return 401
    if method not in ("GET", "HEAD", "POST"):
        return 405
    if method == "POST":
        if not (own or token):
            return 403
        if not actions:
            return 403
        return 200 if json else 415
    return 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
@pytest.mark.parametrize("origin", ORIGINS)
def test_a_request_that_may_be_forged_is_refused(method: str, origin: str) -> None:
    origin_headers, own = ORIGINS[origin]
    for login, (login_headers, logged_in, token) in LOGINS.items():
        for body, (body_headers, json) in BODIES.items():
            for actions in (True, False):
                app = guarded(PASSWORD, actions)
                headers = {**origin_headers, **login_headers, **body_headers}
                status = ask(app, "/api/v1/stop", method, headers, b"{}").status
                assert status == expected(method, own, logged_in, token, json, actions), (
                    login,
                    body,
                    actions,
                )


def test_a_refusal_names_the_host_and_the_setting_of_the_proxy() -> None:
    sent = {"Origin": "http://127.0.0.1:8080", "Host": "127.0.0.1", **JSON}
    answer = ask(guarded(PASSWORD), "/api/v1/login", "POST", sent, b"{}")
    assert answer.status == 403
    assert "the Host, which is '127.0.0.1'. If a proxy has changed the Host" in answer.error
    assert answer.error.endswith("in nginx, proxy_set_header Host $http_host")


@pytest.mark.parametrize("origin", ORIGINS)
def test_without_a_password_too_a_request_that_may_be_forged_is_refused(origin: str) -> None:
    headers, own = ORIGINS[origin]
    for login, (login_headers, *_) in LOGINS.items():
        status = ask(guarded(), "/api/v1/stop", "POST", {**headers, **login_headers, **JSON}, b"{}").status
        assert status == (200 if own else 403), login


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_another_site_may_link_to_the_page_and_read_nothing(site: str, method: str) -> None:
    fetched = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
    followed = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
    assert ask(guarded(), "/", method, followed).status == 200
    assert ask(guarded(), "/", method, fetched).status == 403
    for headers in (fetched, followed):
        assert ask(guarded(), "/api/v1/status", method, headers).status == 403


def test_a_request_with_the_password_as_a_token_may_come_from_any_site() -> None:
    headers = {"Authorization": f"Bearer {PASSWORD}", "Sec-Fetch-Site": "cross-site"}
    assert ask(guarded(PASSWORD), "/api/v1/status", headers=headers).status == 200


def test_a_dashboard_that_only_shows_changes_nothing() -> None:
    app = create_app(Settings(NOWHERE))
    for name in ACTIONS:
        answer = ask(
            app, f"/api/v1/{name}", "POST", {**JSON, "Sec-Fetch-Site": "same-origin"}, {"spider": "s"}
        )
        assert (answer.status, "--actions" in answer.error) == (403, True)


def test_a_link_changes_nothing() -> None:
    app = create_app(Settings(NOWHERE), actions=True, token=TOKEN)
    for name in ACTIONS:
        if name != "failed":
            headers = {"Authorization": f"Bearer {TOKEN}"}
            assert ask(app, f"/api/v1/{name}?spider=s", headers=headers).status == 405


# -- the login -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/api/v1/status", "/api/v1/stream", "/nowhere"])
def test_a_user_without_a_login_sees_nothing(path: str) -> None:
    app = create_app(Settings({**NOWHERE, "FRONTIER_DASHBOARD_PASSWORD": PASSWORD}))
    answer = ask(app, path)
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Bearer ")
    assert answer.json() == {"error": "Log in with the user 'frontier' and the password"}


def test_the_password_may_be_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRONTIER_DASHBOARD_PASSWORD", PASSWORD)
    app = create_app(Settings(NOWHERE))
    assert [ask(app, "/").status, ask(app, "/", headers=basic()).status] == [401, 200]


def test_an_embedding_application_authenticates_the_users() -> None:
    async def ask_somebody(connection: HTTPConnection) -> str | None:
        return connection.headers.get("x-user")

    for authenticate in (lambda connection: connection.headers.get("x-user"), ask_somebody):
        app = guarded(PASSWORD, authenticate=authenticate)
        assert ask(app, "/").status == 401
        assert ask(app, "/", headers=basic()).status == 401
        assert ask(app, "/", headers={"X-User": "ann"}).json() == {"who": "ann from 192.0.2.7"}


@pytest.mark.parametrize("name", [None, False, ""])
def test_a_user_without_a_name_is_refused(name: Any) -> None:
    assert ask(guarded(authenticate=lambda connection: name), "/").status == 401


def test_a_name_that_is_no_name_of_the_dashboard_is_asked_for_no_login() -> None:
    assert ask(guarded(PASSWORD), "/", headers={"Host": "evil.example"}).status == 403


# -- the name by which it is called ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "passes"),
    [
        ("127.0.0.1", True),
        ("127.0.0.1:8000", True),
        ("localhost:1", True),
        ("LocalHost", True),
        ("[::1]:8000", True),
        ("[::1]", True),
        ("evil.example", False),
        ("evil.example:8000", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example:8000", False),
        ("evil.example:127.0.0.1", False),
        ("127.0.0.1:8000:8000", False),
        ("127.0.0.1@evil.example", False),
        ("0.0.0.0:8000", False),
        ("", False),
        (None, False),
    ],
)
def test_only_a_name_of_this_machine_is_answered(host: str | None, passes: bool) -> None:
    for method in ("GET", "POST"):
        headers = {"Host": host, "Sec-Fetch-Site": "same-origin", **JSON}
        answer = ask(guarded(), "/api/v1/status", method, headers, b"{}")
        assert answer.status == (200 if passes else 403)
        if not passes:
            assert "--allowed-host" in answer.error


def test_other_names_may_be_allowed() -> None:
    app = guarded(hosts=["crawls.example", "[2001:db8::1]"])
    hosts = ("Crawls.example:443", "[2001:db8::1]:80", "127.0.0.1", "other.example")
    assert [ask(app, "/", headers={"Host": host}).status for host in hosts] == [200, 200, 403, 403]


def test_the_check_of_the_host_name_can_be_left_to_the_embedding_application() -> None:
    assert ask(guarded(hosts=["*"]), "/", headers={"Host": "any.example"}).status == 200


@pytest.mark.parametrize("host", ["", None])
@pytest.mark.parametrize("origin", ["", "null", "http://", "http://evil.example"])
def test_without_a_name_no_origin_is_the_same(host: str | None, origin: str) -> None:
    headers = {**JSON, "Host": host, "Origin": origin}
    assert ask(guarded(hosts=["*"]), "/api/v1/stop", "POST", headers, b"{}").status == 403


# -- what every answer says ------------------------------------------------------------------------------


def answers() -> dict[str, Answer]:
    """Return an answer of each kind."""
    app = create_app(Settings({**NOWHERE, "FRONTIER_DASHBOARD_PASSWORD": PASSWORD}), actions=True)
    return {
        "page": ask(app, "/", headers=basic()),
        "file": ask(app, "/static/app.js", headers=basic()),
        "api": ask(app, "/api/v1/about", headers=basic()),
        "no login": ask(app, "/"),
        "no such page": ask(app, "/nowhere", headers=basic()),
        "no such host": ask(app, "/", headers={"Host": "evil.example"}),
        "forged": ask(app, "/api/v1/stop", "POST", basic(), {}),
        "method": ask(app, "/", "DELETE", basic()),
        "not json": ask(
            app, "/api/v1/stop", "POST", {**basic(), "Sec-Fetch-Site": "same-origin", **JSON}, b"{"
        ),
        "no redis": ask(app, "/api/v1/status?spider=s", headers=basic()),
        "bad number": ask(app, "/api/v1/workers?spider=s&limit=x", headers=basic()),
    }


@pytest.fixture(scope="module")
def each_answer() -> dict[str, Answer]:
    return answers()


def test_every_answer_forbids_frames_foreign_scripts_and_referrers(each_answer: dict[str, Answer]) -> None:
    for name, answer in each_answer.items():
        headers = answer.headers
        assert headers["content-security-policy"] == POLICY, name
        assert headers["x-content-type-options"] == "nosniff", name
        assert headers["referrer-policy"] == "no-referrer", name
        assert headers["x-frame-options"] == "DENY", name
        assert headers["cross-origin-resource-policy"] == "same-origin", name
        assert not [header for header in headers if header.startswith("access-control-")], name
        kept = "no-cache" if name in ("page", "file") else "no-store"
        assert headers["cache-control"] == kept, name


def test_the_policy_is_as_strict_as_can_be() -> None:
    parts = dict(part.split(" ", 1) for part in POLICY.split("; "))
    assert parts == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_an_answer_describes_its_error_in_a_sentence(each_answer: dict[str, Answer]) -> None:
    statuses = {name: answer.status for name, answer in each_answer.items()}
    assert statuses == {
        "page": 200,
        "file": 200,
        "api": 200,
        "no login": 401,
        "no such page": 404,
        "no such host": 403,
        "forged": 403,
        "method": 405,
        "not json": 400,
        "no redis": 200,
        "bad number": 503,
    }
    for name in ("no login", "no such host", "forged", "method", "not json"):
        assert len(each_answer[name].error) > 15, name


def test_a_page_that_has_not_changed_is_not_sent_again(each_answer: dict[str, Answer]) -> None:
    tag = each_answer["file"].headers["etag"]
    app = create_app(Settings(NOWHERE))
    again = ask(app, "/static/app.js", headers={"If-None-Match": tag})
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/__init__.py", "/static/"]
)
def test_nothing_but_the_page_is_served(path: str) -> None:
    assert ask(create_app(Settings(NOWHERE)), path).status == 404


def test_a_web_socket_is_closed() -> None:
    answer = ask(guarded(), "/", scope_type="websocket")
    assert answer.json() == {"type": "websocket.close", "code": 1008}


# -- mounted ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "/crawls", "/a/b"])
def test_it_may_be_mounted_under_any_path(path: str) -> None:
    app: Any = create_app(Settings(NOWHERE))
    if path:
        others = Route("/", lambda request: PlainTextResponse("another"))
        app = Starlette(routes=[others, Mount(path, app)])
    for name in ("/", "/static/app.js", "/static/style.css", "/static/icon.svg", "/api/v1/about"):
        assert ask(app, path + name).status == 200
    if path:
        assert ask(app, path).headers["location"].endswith(f"{path}/")


def test_a_link_leads_to_it_also_where_it_is_mounted_beside_an_api() -> None:
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    app = create_app(Settings(NOWHERE))
    paths = ("/", "/api/v1/about")
    assert [ask(app, path, headers=followed, root_path="/api/crawls").status for path in paths] == [200, 403]


def test_it_may_be_below_the_path_of_a_proxy() -> None:
    app = create_app(Settings(NOWHERE))
    assert ask(app, "/api/v1/about", root_path="/crawls").status == 200
    refused = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert ask(app, "/api/v1/about", headers=refused, root_path="/crawls").status == 403


@pytest.mark.parametrize("root", ["/crawls", "crawls", "/crawls/", "/cräwls"])
def test_a_proxy_may_take_its_path_off_or_leave_it(root: str) -> None:
    app = below(create_app(Settings(NOWHERE)), root)
    for name in ("/", "/static/app.js", "/api/v1/about"):
        assert ask(app, name).status == 200
        assert ask(app, f"/{root.strip('/')}{name}").status == 200
    assert ask(app, f"/{root.strip('/')}").headers["location"].endswith("ls/")
    assert ask(app, "/crawlsapi/v1/about").status == 404
    refused = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert ask(app, f"/{root.strip('/')}/api/v1/about", headers=refused).status == 403


def test_the_path_of_a_proxy_without_its_slash_leads_to_the_login() -> None:
    app = below(create_app(Settings({**NOWHERE, "FRONTIER_DASHBOARD_PASSWORD": "secret-word"})), "/crawls")
    answer = ask(app, "/crawls", headers={"Accept": "text/html"})
    assert (answer.status, answer.headers["location"]) == (307, "/crawls/")
    assert ask(app, "/crawls/", headers={"Accept": "text/html"}).status == 401


def test_below_no_path_it_is_as_it_was() -> None:
    app = create_app(Settings(NOWHERE))
    assert [below(app, path) for path in ("", "/")] == [app, app]


def test_the_page_asks_for_everything_beside_itself() -> None:
    page = ask(create_app(Settings(NOWHERE)), "/").body.decode()
    targets = [part.split('"')[0] for mark in (' src="', ' href="') for part in page.split(mark)[1:]]
    assert targets
    assert not [one for one in targets if not one.startswith(("static/", "#"))]


def test_each_module_that_the_page_imports_is_served_as_a_script() -> None:
    app, names = create_app(Settings(NOWHERE)), ["app.js"]
    for name in names:
        answer = ask(app, f"/static/{name}")
        assert (answer.status, answer.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
        imported = re.findall(r'from "\./([^"]+)"', answer.body.decode())
        names += [other for other in imported if other not in names]
    assert len(names) > 10


@pytest.mark.parametrize("odd", ["x\n2030-01-01 forged", "\x9b2J", "\x7f", "\u202egnp.exe"])
def test_a_refusal_of_odd_text_is_one_printable_line(odd: str) -> None:
    app = create_app(Settings(NOWHERE), actions=True, token=TOKEN)
    log_in(app)
    field = ask(app, "/api/v1/pause", "POST", {**JSON, "Sec-Fetch-Site": "same-origin"}, {odd: 1})
    method = ask(app, "/api/v1/about", odd)
    assert (field.status, method.status) == (400, 405)
    for answer in (field, method):
        assert answer.body.decode().isprintable()
        assert answer.error.isprintable()
        assert answer.headers["content-type"] == "application/json"
    assert "Unknown fields" in field.error


def test_a_password_of_the_environment_may_be_in_another_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRONTIER_DASHBOARD_PASSWORD", os.fsdecode(b"caf\xe9"))
    app = create_app(Settings(NOWHERE))
    token = base64.b64encode(b"frontier:caf\xe9").decode()
    assert ask(app, "/api/v1/about", headers={"Authorization": f"Basic {token}"}).status == 200
    assert ask(app, "/api/v1/about").status == 401


def test_a_password_that_cannot_be_sent_is_refused() -> None:
    with pytest.raises(SettingError, match="FRONTIER_DASHBOARD_PASSWORD must be valid Unicode"):
        create_app(Settings({**NOWHERE, "FRONTIER_DASHBOARD_PASSWORD": "\ud800"}))
