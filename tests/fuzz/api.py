"""Requests to the dashboard: paths, parameters, headers, bodies, actions; and how it is made."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from hypothesis import strategies as st

from scrapy_rq_sched.dashboard import create_app
from scrapy_rq_sched.dashboard.actions import ACTIONS
from scrapy_rq_sched.errors import FrontierError

from ..dashboard.asgi import TOKEN
from ..dashboard.filled import BOOKS
from .asgi import HOST, answer_faults, answered
from .hostile import as_json, blobs, kept, mutated, numbers, raw, texts, values
from .oracle import Complaint, crash, one_line_faults
from .requests import requests, urls
from .shop import NEIGHBOUR, SPIDER, Base, contents, everything, settings
from .target import Target, World

LOOKING = (
    "about",
    "status",
    "workers",
    "slots",
    "peek",
    "failed",
    "failed/counts",
    "explain",
    "events",
    "audit",
)
LOOKING += ("stream",)
PARAMETERS = ("spider", "offset", "limit", "since", "reason", "id", "url")
HEADERS = (
    "host",
    "origin",
    "sec-fetch-site",
    "sec-fetch-mode",
    "content-type",
    "authorization",
    "cookie",
    "accept",
)
HEADERS += (
    "content-length",
    "transfer-encoding",
    "x-forwarded-for",
    "last-event-id",
    "if-none-match",
    "range",
)
LOGIN = ("authorization", f"Bearer {TOKEN}")
#: The headers of the page's own requests.
OWN = [HOST, LOGIN, ("sec-fetch-site", "same-origin"), ("content-type", "application/json")]
#: Actions that take requests or seeds away on purpose.
REMOVING = ("failed/forget",)
#: How requests and seeds of the shop begin.
REQUESTS = (b'{"url": "https://', b"https://")


class Api(Target):
    """Requests that look and requests that act.

    A case is a list: the options of ``create_app``, a method, a path, a query, headers, and a body.
    """

    name = "api"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._base = Base(world.server, world.url)
        self._apps: dict[str, Any] = {}

    def cases(self) -> st.SearchStrategy[list[Any]]:
        looking = st.tuples(
            _options(), st.sampled_from(["GET", "GET", "HEAD"]), _paths(), _queries(), _headers(), st.just("")
        )
        acting = st.tuples(
            _options(),
            st.just("POST"),
            st.sampled_from(sorted(ACTIONS)).map(lambda name: f"/api/v1/{name}"),
            st.one_of(st.just(""), _queries()),
            st.one_of(st.just(OWN), st.just(OWN), _headers()),
            st.just(None),
        ).flatmap(lambda case: _bodies(case[2]).map(lambda body: [*case[:5], body]))
        odd = st.tuples(_options(), texts(4), _paths(), _queries(), _headers(), blobs())
        return st.one_of(looking, acting, acting, odd).map(lambda case: json.loads(as_json(case)))

    def examine(self, cases: list[list[Any]]) -> Iterator[Complaint]:
        for options, method, path, query, headers, body in cases:
            place = path.removeprefix("/api/v1/") if path.startswith("/api/v1/") else "another path"
            app, problem = self._app(options)
            if app is None:
                yield from problem
                continue
            self._base.restore()
            server = self.world.server
            before = contents(server)
            answer = asyncio.run(answered(app, path, query, method, [*map(tuple, headers)], raw(body or "")))
            yield from answer_faults(answer, place if method in ("GET", "HEAD", "POST") else "an odd method")
            after = contents(server)
            changed = [kept(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key)]
            # The audit list also has the wrong guesses of a password.
            may_change = [f"{SPIDER}:audit"] if answer.status == HTTPStatus.UNAUTHORIZED else []
            if method != "POST" and not set(changed) <= set(may_change):
                yield Complaint(f"a request that looks has changed Redis ({place})", str(changed))
            # An action may begin the frontier of another spider, but not touch what is there.
            if others := NEIGHBOUR.keys() & set(changed):
                yield Complaint(f"an action has changed another program's keys ({place})", str(others))
            found = everything(after)
            lost = [data for data in _requests(before) if data not in found] if changed else []
            if lost and place not in REMOVING:
                yield Complaint(f"an action has lost a request ({place})", kept(lost[0]))

    def _app(self, options: dict[str, Any]) -> tuple[Any, list[Complaint]]:
        """Return the application of *options*, or what is wrong with the way in which it is refused."""
        name = as_json(options)
        if name in self._apps:
            return self._apps[name], []
        more = dict(options)
        password = more.pop("password", None)
        try:
            app = create_app(
                settings(self.world.url, FRONTIER_DASHBOARD_PASSWORD=password),
                is_closing=lambda: True,
                **more,
            )
        except FrontierError as error:
            return None, list(one_line_faults(str(error), "refusal of create_app"))
        except Exception as error:
            return None, [crash(error, "create_app")]
        if len(self._apps) > 50:
            self._apps.clear()
        self._apps[name] = app
        return app, []


def _requests(found: dict[bytes, Any]) -> list[bytes]:
    return [data for data in everything(found).split(b"\0") if data.startswith(REQUESTS)]


def _options() -> st.SearchStrategy[dict[str, Any]]:
    usual: st.SearchStrategy[dict[str, Any]] = st.just({"actions": True, "token": TOKEN})
    odd = st.fixed_dictionaries(
        {"actions": st.booleans()},
        optional={
            "spider": st.one_of(st.just(SPIDER), texts(5)),
            "redis_key": st.one_of(st.just("%(name)s:seeds"), texts(5)),
            "allowed_hosts": st.lists(st.one_of(st.just("*"), texts(4)), max_size=2),
            "open_metrics": st.booleans(),
            "password": texts(4),
            "token": texts(4),
        },
    )
    return st.one_of(*[usual] * 4, odd)


def _paths() -> st.SearchStrategy[str]:
    known = st.sampled_from([f"/api/v1/{name}" for name in LOOKING])
    others = st.sampled_from(
        ["/", "/metrics", "/static/page.js", "/static/..%2fapp.py", "/static/../app.py", "//x/"]
    )
    # A server decodes a path as UTF-8.
    odd = st.builds("/{}".format, texts()).map(lambda text: text.encode("utf-8", "replace").decode())
    return st.one_of(known, known, known, others, odd, st.builds("{}/{}".format, known, st.just("..")))


def _queries() -> st.SearchStrategy[str]:
    ours = st.sampled_from([SPIDER, "1-0", "0", "50", f"{BOOKS}/1", "timeout"])
    value = st.one_of(ours, texts(), numbers().map(str), blobs().filter(lambda text: len(text) < 1000))
    names = st.one_of(*[st.sampled_from(PARAMETERS)] * 4, texts(4))
    pair = st.builds(lambda name, text: f"{quote(raw_text(name))}={quote(raw_text(text))}", names, value)
    whole = st.lists(pair, max_size=3).map("&".join)
    return st.one_of(
        whole, whole.map(f"spider={SPIDER}&{{}}".format), whole.map(f"spider={SPIDER}&{{}}".format), _ascii()
    )


def raw_text(text: str) -> bytes:
    """Return the bytes of *text*, whatever its surrogates mean."""
    return text.encode("utf-8", "surrogatepass")


def _ascii() -> st.SearchStrategy[str]:
    return st.text(st.characters(max_codepoint=126, min_codepoint=33), max_size=12)


def _headers() -> st.SearchStrategy[Any]:
    # No server passes on a line break or a NUL in a header.
    value = st.text(st.characters(max_codepoint=255, exclude_characters="\r\n\0"), max_size=12)
    known = st.sampled_from(
        ["same-origin", "cross-site", "http://127.0.0.1:8000", "null", "navigate", "Basic !!", "Bearer x"]
    )
    known = st.one_of(
        known, st.sampled_from(["127.0.0.1:8000", "[::1]", "[", "application/json; charset=x", "Basic Og=="])
    )
    pairs = st.lists(st.tuples(st.sampled_from(HEADERS), st.one_of(known, value)), max_size=3)
    # A wrong login is answered after a pause, so most requests have the right one first.
    return st.one_of(
        pairs.map(lambda more: [HOST, LOGIN, *more]), pairs.map(lambda more: [*OWN, *more]), pairs
    )


def _bodies(path: str) -> st.SearchStrategy[str]:
    """Return bodies for the action at *path*: most have its fields, in their types."""
    fields = ACTIONS[path.removeprefix("/api/v1/")].fields
    seeds = st.lists(st.one_of(urls(), requests().map(as_json), texts()), max_size=3)
    known: dict[str, Any] = {
        "seeds": seeds,
        "urls": seeds,
        "crawl": st.booleans(),
        "priority": numbers(),
        "seconds": numbers(),
        "slot": st.one_of(st.just("www.books.example"), texts()),
        "reason": st.one_of(st.just("timeout"), texts()),
        "id": texts(),
        "url": st.one_of(st.just("*"), texts()),
    }
    given = {name: st.one_of(known.get(name, st.one_of(numbers(), texts())), values()) for name in fields}
    spider = st.one_of(*[st.just(SPIDER)] * 6, texts(5), values())
    dry = st.one_of(st.booleans(), st.booleans(), values())
    whole = st.fixed_dictionaries({"spider": spider}, optional={**given, "dry_run": dry})
    more = st.builds(lambda fields, name, value: {**fields, name: value}, whole, texts(4), values())
    usual = whole.map(as_json)
    return st.one_of(usual, usual, usual, more.map(as_json), mutated(['{"spider": "shop"}']), blobs())
