"""The names of a metric's samples: those of a histogram are others than its own."""

from __future__ import annotations

from scrapy_rq_sched.metrics.catalogue import METRICS, Metric


def samples_of(metric: Metric) -> dict[str, set[str]]:
    """Return the names of the samples of *metric*, and their labels."""
    labels = {*metric.labels}
    if metric.kind != "histogram":
        return {metric.name: labels}
    of_buckets = {f"{metric.name}_bucket": labels | {"le"}}
    return {**of_buckets, f"{metric.name}_sum": labels, f"{metric.name}_count": labels}


#: Of each sample that there may be, its labels.
SAMPLES = {name: labels for metric in METRICS for name, labels in samples_of(metric).items()}
