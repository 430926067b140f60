"""Sends metrics by OTLP at an interval, on a thread of its own.

Imports OpenTelemetry's packages, which are not always installed: only `connect.metrics.otlp`
imports this module.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from connect.errors import RetriableError
from connect.loop import BackgroundLoop, Backoff, OnError
from connect.metrics.histogram import HistogramValue
from connect.metrics.naming import Family, MetricKind, NamedMetric, named_metrics
from connect.metrics.registry import MetricRegistry
from connect.version import VERSION

__all__ = ["OtlpSender"]

_LOG = logging.getLogger(__name__)

_SERVICE = "kafka-connect-mirror"
_SCOPE = InstrumentationScope(_SERVICE, VERSION)
_CUMULATIVE = AggregationTemporality.CUMULATIVE

_POINTS = 5_000
"""Points in a request, which then has about 1 MB: 10,000 partitions have 300,000 points."""
_STOP_S = 2.0

Points = Sequence[tuple[dict[str, str], float | HistogramValue]]


class OtlpSender:
    """Sends all metrics of a registry. The owner calls `start` and `stop` once each."""

    def __init__(self, metrics: MetricRegistry, url: str | None, interval_s: float) -> None:
        """`url`: None leaves it to the environment."""
        self._metrics = metrics
        self._exporter = OTLPMetricExporter(endpoint=url)
        self._began_ns = time.time_ns()
        self._resource = Resource({})
        self._loop = BackgroundLoop(
            "the export of metrics",
            self._send,
            interval_s=interval_s,
            backoff=Backoff(5.0, 60.0),
            classify=lambda _: OnError.RETRY,
        )

    def start(self, instance: str) -> None:
        """Begin to send. `instance` tells this process from others of the service, unless the
        environment names it."""
        own = Resource(
            {
                "service.name": _SERVICE,
                "service.version": VERSION,
                "service.instance.id": instance,
            }
        )
        self._resource = own.merge(OTELResourceDetector().detect())
        self._loop.start()

    def stop(self) -> None:
        """End the request that is under way, and the thread."""
        self._loop.request_stop()
        self._exporter.shutdown()
        if not self._loop.stop(_STOP_S):
            _LOG.debug("The thread that sends metrics ends with the process")

    def _send(self) -> None:
        now_ns = time.time_ns()
        batch: list[Metric] = []
        points = 0
        for metric in named_metrics(self._metrics.collect(), (Family.A,), dict):
            # NaN means that there is no value, and many stores refuse it.
            shown = [(labels, value) for labels, value in metric.points if value == value]
            batch.append(self._converted(metric, shown, now_ns))
            points += len(shown)
            if points >= _POINTS:
                self._export(batch)
                batch, points = [], 0
        if batch:
            self._export(batch)

    def _export(self, batch: Sequence[Metric]) -> None:
        if self._loop.stopping.is_set():
            return
        scope = ScopeMetrics(_SCOPE, batch, "")
        data = MetricsData([ResourceMetrics(self._resource, [scope], "")])
        if self._exporter.export(data) is not MetricExportResult.SUCCESS:
            raise RetriableError("the collector did not take the metrics; the log says why")

    def _converted(
        self, metric: NamedMetric[dict[str, str]], points: Points, now_ns: int
    ) -> Metric:
        times = (self._began_ns, now_ns)
        if metric.kind is MetricKind.HISTOGRAM:
            histograms = [
                # The least and the greatest value are not known.
                HistogramDataPoint(
                    labels,
                    *times,
                    sum(value.counts),
                    value.total,
                    value.counts,
                    value.bounds,
                    None,
                    None,
                )
                for labels, value in points
                if isinstance(value, HistogramValue)
            ]
            return Metric(metric.name, metric.description, "s", Histogram(histograms, _CUMULATIVE))
        numbers = [NumberDataPoint(labels, *times, value) for labels, value in points]
        data = (
            Sum(numbers, _CUMULATIVE, True) if metric.kind is MetricKind.COUNTER else Gauge(numbers)
        )
        return Metric(metric.name, metric.description, "", data)
