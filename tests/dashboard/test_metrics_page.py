"""``/metrics``: what Prometheus reads, behind the dashboard's login."""

from __future__ import annotations

import base64
import builtins
from typing import Any

import pytest
import redis
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.routing import Mount

from scrapy_rq_sched.inspect import View, read_status

from .asgi import ask
from .conftest import Make

SECRET = {"FRONTIER_DASHBOARD_PASSWORD": "s3cret"}
BASIC = {"Authorization": "Basic " + base64.b64encode(b"frontier:s3cret").decode()}


def test_it_has_the_numbers_of_the_status(app: Any, view: View) -> None:
    answer = ask(app, "/metrics")
    assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (
        200,
        "application/openmetrics-text",
    )
    samples = {
        (sample.name, sample.labels.get("spider"), sample.labels.get("state")): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }
    status = read_status(view)
    assert samples["scrapy_frontier_requests", "shop", "waiting"] == status.waiting
    assert samples["scrapy_frontier_requests", "shop", "failed"] == status.failed
    assert samples["scrapy_frontier_workers", "shop", "alive"] == status.alive


def test_it_asks_for_the_login_of_the_dashboard(make: Make) -> None:
    app = make(SECRET)
    assert ask(app, "/metrics").status == 401
    assert ask(app, "/metrics", headers=BASIC).status == 200
    assert ask(app, "/metrics", headers={"Authorization": "Bearer s3cret"}).status == 200


@pytest.mark.parametrize("mounted", [False, True])
def test_it_may_be_open_and_nothing_else_is_then(make: Make, mounted: bool) -> None:
    app = make(SECRET, open_metrics=True)
    below = "/crawls" if mounted else ""
    asked = Starlette(routes=[Mount("/crawls", app)]) if mounted else app
    assert ask(asked, f"{below}/metrics").status == 200
    assert ask(asked, f"{below}/metrics", "POST").status == 401
    others = ("/", "/api/v1/status", "/metrics/", "/api/v1/status/metrics", "/static/app.js")
    assert [ask(asked, f"{below}{path}").status for path in others] == [401] * len(others)


def test_it_is_called_by_the_names_that_the_dashboard_knows(make: Make) -> None:
    answer = ask(make(open_metrics=True), "/metrics", headers={"Host": "evil.example"})
    assert answer.status == 403


def test_without_the_library_the_page_names_the_package_to_install(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "scrapy_rq_sched.metrics.exposition.import_module", lambda name: builtins.__import__("no_such_module")
    )
    answer = ask(make(), "/metrics")
    assert answer.status == 501
    assert "pip install 'scrapy-rq-sched[metrics]'" in answer.error


def test_one_that_only_shows_a_spider_has_the_metrics_of_no_other(
    make: Make, shop: Any, server: redis.Redis
) -> None:
    text = ask(make(spider="other"), "/metrics").body.decode()
    assert 'spider="shop"' not in text
