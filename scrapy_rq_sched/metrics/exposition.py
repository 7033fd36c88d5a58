"""Write metrics as text, to a file or over HTTP, with ``prometheus_client``.

Functions import the library themselves, since only the extra ``metrics`` installs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import InspectionError
from ..frontier.exchange_times import Histogram
from . import server
from .catalogue import METRICS, Metric
from .labels import label
from .samples import Sample, samples
from .snapshots import Snapshot


def require_library() -> None:
    """Check that the extra ``metrics`` is installed.

    :raises InspectionError: if it is not.
    """
    try:
        import_module("prometheus_client")
    except ImportError as error:
        raise InspectionError(
            f"The metrics need prometheus-client, which cannot be imported ({error}). Install it: "
            "pip install 'scrapy-rq-sched[metrics]'"
        ) from error


def as_openmetrics(snapshot: Snapshot) -> str:
    """Return *snapshot* in the OpenMetrics format."""
    from prometheus_client.openmetrics.exposition import generate_latest

    text: bytes = generate_latest(_registry(lambda: snapshot))  # type: ignore[no-untyped-call]
    return text.decode()


def write_textfile(snapshot: Snapshot, path: Path) -> None:
    """Replace the file at *path* by *snapshot*, in one step, for a node exporter.

    The file has Prometheus's text format: a node exporter does not read OpenMetrics.

    :raises InspectionError: if the file cannot be written.
    """
    from prometheus_client import write_to_textfile

    try:
        write_to_textfile(str(path), _registry(lambda: snapshot))
    except OSError as error:
        raise InspectionError(
            f"The metrics cannot be written to {str(path)!r}: {error.strerror or error}. Give --out "
            "a file in a folder that this user may write to"
        ) from error


def serve(take: Callable[[], Snapshot], host: str, port: int) -> int:
    """Serve the snapshots of *take* at ``/metrics``, in background threads, and return the port.

    :param port: the port; 0 for any free one.
    :raises InspectionError: if this address cannot be listened on.
    """
    from prometheus_client import make_wsgi_app

    try:
        return server.start(make_wsgi_app(_registry(take)), host, port)
    except (OSError, OverflowError, UnicodeError, TypeError) as error:
        why = getattr(error, "strerror", None) or error
        raise InspectionError(
            f"The exporter cannot listen on {host}:{port}: {why}. Give --listen another address or port"
        ) from error


def _registry(take: Callable[[], Snapshot]) -> Any:
    from prometheus_client import CollectorRegistry
    from prometheus_client.registry import Collector

    class Frontiers(Collector):
        def describe(self) -> Iterator[Any]:
            return map(_family, METRICS)

        def collect(self) -> Iterator[Any]:
            return _families(samples(take()))

    registry = CollectorRegistry()
    registry.register(Frontiers())
    return registry


def _families(found: Iterable[Sample], metrics: Sequence[Metric] = METRICS) -> Iterator[Any]:
    """Yield the library's families, each combination of labels once: Prometheus refuses duplicates."""
    values: dict[Metric, dict[tuple[str, ...], Any]] = {metric: {} for metric in metrics}
    for metric, labels, value in found:
        values[metric].setdefault(tuple(map(label, labels)), value)
    for metric, by_labels in values.items():
        family = _family(metric)
        for labels, value in by_labels.items():
            family.add_metric(labels, *_of_library(value))
        if by_labels:
            yield family


def _of_library(value: float | Histogram) -> tuple[Any, ...]:
    if not isinstance(value, Histogram):
        return (value,)
    bounds = [*(str(float(bound)) for bound in value.bounds), "+Inf"]
    return list(zip(bounds, value.counts, strict=True)), value.sum


def _family(metric: Metric) -> Any:
    from prometheus_client import core

    families: dict[str, Any] = {
        "gauge": core.GaugeMetricFamily,
        "counter": core.CounterMetricFamily,
        "histogram": core.HistogramMetricFamily,
    }
    return families[metric.kind](metric.name.removesuffix("_total"), metric.help, labels=metric.labels)
