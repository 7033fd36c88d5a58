"""What a text of metrics says, as Prometheus's own library reads it."""

from __future__ import annotations

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

#: By the name of a metric, and by its labels' values in the order of their names.
Values = dict[str, dict[tuple[str, ...], float]]


def read(text: str, is_openmetrics: bool = True) -> Values:
    """Return the values in *text*; it must be valid."""
    found: Values = {}
    for family in (openmetrics if is_openmetrics else plain)(text):
        assert family.documentation
        for sample in family.samples:
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            assert labels not in found.setdefault(sample.name, {})
            found[sample.name][labels] = sample.value
    return found


def of_spider(values: Values, name: str, spider: str) -> dict[str, float]:
    """Return the values that the metric *name* has for *spider*, by its other label; '' if it has none."""
    found = {}
    for labels, value in values.get(f"scrapy_{name}", {}).items():
        rest = list(labels)
        if spider in rest:
            rest.remove(spider)
            found["".join(rest)] = value
    return found
