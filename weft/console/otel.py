"""Metrics to an OpenTelemetry collector: the same numbers, read from the checkpoint whenever they are sent.

Names lose the prefix and suffix of Prometheus: `weft_rows_total` is `weft.rows`.  Where they go, how often and with
which headers is said by the usual variables, such as OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_METRIC_EXPORT_INTERVAL.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from weft.console.metrics import Metric, read_metrics
from weft.console.picture import Picture

FRESH = 1.0
"""Seconds for which what was read serves all instruments."""


class Export:
    """Sends metrics of a checkpoint until it is closed."""

    def __init__(self, root: Path, reader: MetricReader | None = None) -> None:
        self._picture = Picture(root)
        self._known: tuple[float, dict[str, Metric]] = (0.0, {})
        resource = Resource.create({"service.name": "weft", "service.instance.id": root.absolute().name})
        self._provider = MeterProvider([reader or _periodic()], resource, shutdown_on_exit=False)
        meter = self._provider.get_meter("weft")
        for metric in read_metrics(self._picture):
            make = meter.create_observable_counter if metric.kind == "counter" else meter.create_observable_gauge
            make(otel_name(metric), [self._observe(metric.name)], description=metric.help)

    def close(self) -> None:
        """Send the last numbers, and end."""
        self._known = (0.0, {})
        self._provider.shutdown()

    def _observe(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            metric = self._read().get(name)
            return [Observation(value, dict(labels)) for labels, value in (metric.samples if metric else ())]

        return observe

    def _read(self) -> dict[str, Metric]:
        at, known = self._known
        if time.monotonic() - at > FRESH:
            known = {metric.name: metric for metric in read_metrics(self._picture)}
            self._known = time.monotonic(), known
        return known


def otel_name(metric: Metric) -> str:
    """What OpenTelemetry calls a metric."""
    return metric.name.removesuffix("_total").replace("_", ".", 1)


def _periodic() -> MetricReader:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    return PeriodicExportingMetricReader(OTLPMetricExporter())
