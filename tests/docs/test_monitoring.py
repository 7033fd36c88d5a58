"""What is shipped for Prometheus and Grafana asks for metrics that there are, by labels that they have."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scrapy_rq_sched.metrics.catalogue import METRICS

from ..support.metric_names import SAMPLES, samples_of
from ..support.pages import DOCS, rows, section

LABELS = SAMPLES
#: Labels that Prometheus adds.
ADDED = {"instance", "job"}
FUNCTIONS = {
    "absent",
    "delta",
    "deriv",
    "histogram_quantile",
    "increase",
    "max",
    "min_over_time",
    "predict_linear",
    "rate",
    "sum",
    "topk",
}
WORDS = {"and", "or", "unless", "on", "by"}
PROMETHEUS = DOCS / "prometheus"


def dashboard() -> Any:
    return json.loads((DOCS / "grafana" / "dashboard.json").read_text())


def rules() -> list[Any]:
    (group,) = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"]
    return list(group["rules"])


def expressions() -> Iterator[tuple[str, str]]:
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield f"{panel['id']} {panel['title']} {target['refId']}", target["expr"]
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()  # type: ignore[union-attr]
            yield f"variable {variable['name']}", f"sum by ({label}) ({metric})"


EXPRESSIONS = dict(expressions())


def asked(expression: str) -> tuple[list[str], list[tuple[str, set[str]]]]:
    """Return the names in *expression* that are no labels, and by which labels each metric is asked."""
    by_metric = [
        (name, set(re.findall(r"(\w+) ?(?:=~|!~|!=|=)", matchers)))
        for name, matchers in re.findall(r"(\w+)\{(.*?)\}", re.sub(r'"[^"]*"', '""', expression))
    ]
    plain = re.sub(
        r'"[^"]*"|\{.*?\}|\[.*?\]|\b(?:by|on) \([^)]*\)', " ", re.sub(r'"[^"]*"', '""', expression)
    )
    return re.findall(r"[a-zA-Z_]\w*", plain), by_metric


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_an_expression_asks_for_metrics_and_labels_that_there_are(expression: str) -> None:
    names, by_metric = asked(expression)
    metrics = [name for name in names if name not in FUNCTIONS | WORDS]
    assert metrics
    assert not [name for name in metrics if name not in LABELS]
    assert not [(name, labels - LABELS[name]) for name, labels in by_metric if labels - LABELS[name]]
    grouped = {
        label for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression) for label in group.split(", ")
    }
    assert grouped <= set.intersection(*(LABELS[name] for name in metrics)) | ADDED


def test_the_check_of_expressions_finds_names_and_labels() -> None:
    names, by_metric = asked('sum by (spider) (rate(scrapy_frontier_page{state="a{b",x!~"c"}[5m])) > 1')
    assert "scrapy_frontier_page" in names
    assert by_metric == [("scrapy_frontier_page", {"state", "x"})]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_an_alert_has_a_severity_a_summary_and_a_description(rule: Any) -> None:
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert rule["annotations"].keys() == {"summary", "description"}
    labels = set.intersection(
        *(LABELS[name] for name in asked(rule["expr"])[0] if name not in FUNCTIONS | WORDS)
    )
    said = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
    assert said <= labels


def test_a_panel_of_the_dashboard_is_whole() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not taken & cells, panel["title"]
        taken |= cells
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"
            shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            metrics = [name for name in asked(target["expr"])[0] if name in LABELS]
            assert shown <= set.intersection(*(LABELS[name] for name in metrics)) | ADDED


def test_every_metric_is_on_the_dashboard_but_the_statistics() -> None:
    shown = {
        name for panel in dashboard()["panels"] for t in panel["targets"] for name in asked(t["expr"])[0]
    }
    hidden = [metric.name for metric in METRICS if not shown & set(samples_of(metric))]
    assert hidden == ["scrapy_stats"]


def test_every_metric_is_on_its_page() -> None:
    table = {
        row[0].strip("`"): set(re.findall(r"`(\w+)`", row[1]))
        for row in rows(section(DOCS / "metrics.md", "## The metrics"))
    }
    assert table == {metric.name: {*metric.labels} for metric in METRICS}


def test_every_alert_is_on_the_page() -> None:
    table = [row[0].strip("`") for row in rows(section(DOCS / "metrics.md", "## Alerts"))]
    assert table == [rule["alert"] for rule in rules()]


def test_the_port_that_prometheus_asks_is_that_of_the_page() -> None:
    (job,) = yaml.safe_load((PROMETHEUS / "scrape.yml").read_text())["scrape_configs"]
    (target,) = job["static_configs"][0]["targets"]
    assert f"--listen {target.partition(':')[2]}" in (DOCS / "metrics.md").read_text()


def test_the_alerts_fire_when_they_should(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not here; it comes with Prometheus")
    for file in (PROMETHEUS / "alerts.yml", Path(__file__).with_name("alerts_test.yml")):
        shutil.copy(file, tmp_path)
    done = subprocess.run(
        [promtool, "test", "rules", "alerts_test.yml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
