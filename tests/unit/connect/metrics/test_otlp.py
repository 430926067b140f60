"""Metrics at an OpenTelemetry collector: a real receiver reads the protobuf of each request."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Callable, Iterator

import pytest

from connect.config.definition import ConfigDef
from connect.config.otlp_keys import OTLP_ENDPOINT
from connect.errors import ConfigError
from connect.metrics.histogram import HistogramValue
from connect.metrics.otlp import otlp_export
from connect.metrics.registry import MetricRegistry, MetricValue
from tests.support.deployment.otlp_receiver import OtlpReceiver, otlp_receiver

PARTITION = {"source": "a", "target": "b", "topic": "a.orders", "partition": "3"}
FLOW = {"source": "a", "target": "b", "connector": "MirrorSourceConnector", "task": "0"}
NAME = "kafka_connect_mirror_mirrorsourceconnector"
SOON = {"OTEL_METRIC_EXPORT_INTERVAL": "20"}

Export = Callable[..., None]


@pytest.fixture
def collector() -> Iterator[OtlpReceiver]:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra opentelemetry")
    with otlp_receiver() as receiver:
        yield receiver


@pytest.fixture
def metrics() -> MetricRegistry:
    return MetricRegistry()


@pytest.fixture
def export(metrics: MetricRegistry) -> Iterator[Export]:
    """Starts the export of `metrics` to an endpoint."""
    started = []

    def start(endpoint: str | None, environment: dict[str, str] = SOON) -> None:
        sender = otlp_export(metrics, endpoint, environment)
        assert sender is not None
        started.append(sender)
        sender.start("host:8083")

    yield start
    for sender in started:
        sender.stop()


def mirror(metrics: MetricRegistry, values: dict[str, MetricValue]) -> None:
    metrics.register("MirrorSourceConnector", PARTITION, lambda: values)


def labels(point: object) -> dict[str, str]:
    attributes = point.attributes  # type: ignore[attr-defined]
    return {each.key: each.value.string_value for each in attributes}


def test_gauges_counters_and_histograms_arrive_as_such(
    collector: OtlpReceiver, metrics: MetricRegistry, export: Export
) -> None:
    mirror(metrics, {"record-count": 12, "record-age-ms-avg": 2.5})
    metrics.register("process", {}, lambda: {"cpu-seconds-total": 1.5})
    value = HistogramValue((0.5, 1.0), (3, 0, 2), 12.5)
    metrics.register("MirrorFlow", FLOW, lambda: {"replication-latency-seconds": value})
    export(collector.url)

    request = collector.wait_for(bool)[0]
    assert request.path == "/v1/metrics"
    assert request.headers["content-type"] == "application/x-protobuf"
    shown = request.metrics()

    (count,) = shown[f"{NAME}_record_count"].gauge.data_points
    assert (count.as_int, labels(count)) == (12, PARTITION)
    assert shown[f"{NAME}_record_count"].description.startswith("Records acknowledged")
    assert shown[f"{NAME}_record_age_ms_avg"].gauge.data_points[0].as_double == 2.5

    cpu = shown["process_cpu_seconds_total"].sum
    assert cpu.is_monotonic
    # 2: cumulative.
    assert cpu.aggregation_temporality == 2
    assert cpu.data_points[0].as_double == 1.5
    assert 0 < cpu.data_points[0].start_time_unix_nano <= cpu.data_points[0].time_unix_nano

    latency = shown["kafka_connect_mirror_flow_replication_latency_seconds"]
    (point,) = latency.histogram.data_points
    assert (latency.unit, labels(point)) == ("s", FLOW)
    assert (point.count, point.sum) == (5, 12.5)
    assert list(point.bucket_counts) == [3, 0, 2]
    assert list(point.explicit_bounds) == [0.5, 1.0]
    assert not point.HasField("min")


def test_a_number_that_is_not_known_is_no_point(
    collector: OtlpReceiver, metrics: MetricRegistry, export: Export
) -> None:
    mirror(metrics, {"record-age-ms-avg": math.nan, "time-to-loss-ms": math.inf})
    export(collector.url)

    shown = collector.wait_for(bool)[0].metrics()
    assert not shown[f"{NAME}_record_age_ms_avg"].gauge.data_points
    assert shown[f"{NAME}_time_to_loss_ms"].gauge.data_points[0].as_double == math.inf


def test_new_values_follow_at_the_interval(
    collector: OtlpReceiver, metrics: MetricRegistry, export: Export
) -> None:
    values: dict[str, MetricValue] = {"record-count": 1}
    mirror(metrics, values)
    export(collector.url)
    collector.wait_for(bool)
    values["record-count"] = 2

    collector.wait_for(
        lambda all_of_them: (
            all_of_them[-1].metrics()[f"{NAME}_record_count"].gauge.data_points[0].as_int == 2
        )
    )


def test_the_process_has_a_name_unless_the_environment_gives_one(
    collector: OtlpReceiver,
    metrics: MetricRegistry,
    export: Export,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    mirror(metrics, {"record-count": 1})
    export(collector.url)
    told = collector.wait_for(bool)[0].resource()
    assert told["service.name"] == "kafka-connect-mirror"
    assert told["service.instance.id"] == "host:8083"
    assert told["deployment.environment.name"] == "test"

    monkeypatch.setenv("OTEL_SERVICE_NAME", "orders-mirror")
    export(collector.url)
    collector.wait_for(lambda them: them[-1].resource()["service.name"] == "orders-mirror")


def test_the_environment_alone_asks_for_the_export(
    collector: OtlpReceiver,
    metrics: MetricRegistry,
    export: Export,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20t0k3n",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    mirror(metrics, {"record-count": 1})
    export(None, {**environment, **SOON})

    request = collector.wait_for(bool)[0]
    assert request.path == "/v1/metrics"
    assert request.headers["authorization"] == "Bearer t0k3n"
    assert request.headers["content-encoding"] == "gzip"


def test_many_partitions_go_in_several_requests(
    collector: OtlpReceiver, metrics: MetricRegistry, export: Export
) -> None:
    for number in range(3_000):
        metrics.register(
            "MirrorSourceConnector",
            {**PARTITION, "partition": str(number)},
            lambda: {"record-count": 1, "byte-count": 2, "shallow-record-count": 3},
        )
    export(collector.url, {"OTEL_METRIC_EXPORT_INTERVAL": "3600000"})

    requests = collector.wait_for(
        lambda them: any(
            "metrics_registry_failed_read_count" in n for r in them for n in r.metrics()
        )
    )
    assert len(requests) > 1
    points = [
        point
        for request in requests
        for metric in request.metrics().values()
        for point in metric.gauge.data_points
        if metric.name.startswith(NAME)
    ]
    assert len(points) == 9_000
    assert len({(labels(each)["partition"], each.as_int) for each in points}) == 9_000


def test_a_collector_that_refuses_is_told_in_the_log_once_and_tried_again(
    collector: OtlpReceiver,
    metrics: MetricRegistry,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from connect.loop import Backoff
    from connect.metrics import otlp_sender

    monkeypatch.setattr(otlp_sender, "Backoff", lambda *_: Backoff(0.01, 0.01))
    mirror(metrics, {"record-count": 1})
    collector.refusals = [400, 400, 400]
    sender = otlp_export(metrics, collector.url, SOON)
    assert sender is not None
    with caplog.at_level(logging.WARNING, "connect.loop"):
        sender.start("host:8083")
        try:
            collector.wait_for(bool)
        finally:
            sender.stop()
    told = [each for each in caplog.records if each.name == "connect.loop"]
    assert len(told) == 1
    assert "the collector did not take the metrics" in told[0].getMessage()


def test_no_endpoint_no_export(metrics: MetricRegistry) -> None:
    assert otlp_export(metrics, None, {}) is None


@pytest.mark.parametrize(
    "more",
    [
        {"OTEL_SDK_DISABLED": "true"},
        {"OTEL_METRICS_EXPORTER": "none"},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
    ],
)
def test_the_environment_can_forbid_it(metrics: MetricRegistry, more: dict[str, str]) -> None:
    asked = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}

    assert otlp_export(metrics, None, {**asked, **more}) is None


def test_another_protocol_is_not_silently_ignored(
    metrics: MetricRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
    }
    otlp_export(metrics, None, environment)

    assert "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL=http/protobuf" in caplog.text


def test_a_missing_package_is_an_error_where_a_property_asks_and_a_warning_where_not(
    metrics: MetricRegistry, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delitem(sys.modules, "connect.metrics.otlp_sender", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)

    with pytest.raises(ConfigError, match=r"mirror.otlp.endpoint needs .*\[opentelemetry\]"):
        otlp_export(metrics, "http://collector:4318", {})
    asked = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://collector:4318/v1/metrics"}
    assert otlp_export(metrics, None, asked) is None
    assert "pip install 'kafka-connect-mirror[opentelemetry]'" in caplog.text


def test_a_wrong_interval_is_refused(metrics: MetricRegistry) -> None:
    with pytest.raises(ConfigError, match="Invalid value 1m for OTEL_METRIC_EXPORT_INTERVAL"):
        otlp_export(metrics, "http://collector:4318", {"OTEL_METRIC_EXPORT_INTERVAL": "1m"})


@pytest.mark.parametrize("url", ["collector:4318", "grpc://collector:4317", "http://"])
def test_a_wrong_endpoint_is_refused_with_its_value(url: str) -> None:
    with pytest.raises(ConfigError) as failed:
        ConfigDef([OTLP_ENDPOINT]).parse({OTLP_ENDPOINT.name: url})
    assert url in str(failed.value)
    assert "http://collector:4318" in str(failed.value)


def test_a_password_in_the_endpoint_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError) as failed:
        ConfigDef([OTLP_ENDPOINT]).parse({OTLP_ENDPOINT.name: "http://me:s3cret@collector:4318"})
    assert "s3cret" not in str(failed.value)
    assert "OTEL_EXPORTER_OTLP_HEADERS" in str(failed.value)


def test_an_empty_endpoint_is_none() -> None:
    parsed = ConfigDef([OTLP_ENDPOINT]).parse({OTLP_ENDPOINT.name: ""})

    assert parsed.optional_string(OTLP_ENDPOINT.name) is None
