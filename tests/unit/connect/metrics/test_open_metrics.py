"""The /metrics page in OpenMetrics: a parser that is not ours, and stricter, takes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from connect.metrics.catalogue import described
from connect.metrics.exposition import PageFormat, render
from connect.metrics.histogram import HistogramValue
from connect.metrics.naming import Family
from connect.metrics.process_metrics import process_metrics, python_metrics
from connect.metrics.registry import MetricSample, MetricValue

HISTOGRAM = HistogramValue((0.5, 1.0), (3, 0, 2), 12.5)


def page(samples: list[MetricSample], *families: Family) -> str:
    return "".join(render(samples, families or tuple(Family), PageFormat.OPEN_METRICS))


def parsed(text: str) -> dict[str, Metric]:
    parse: Callable[[str], Iterable[Metric]] = text_string_to_metric_families
    return {metric.name: metric for metric in parse(text)}


def everything() -> list[MetricSample]:
    """A sample of every attribute that has a description."""

    def value(attribute: str) -> MetricValue:
        if attribute in ("record-age-seconds", "replication-latency-seconds"):
            return HISTOGRAM
        return "some text" if attribute in ("status", "engine", "version") else 1.5

    tags = {"client-id": 'a->b|"x"', "topic": "back\\slash\nline"}
    return [
        MetricSample(group, tags, {each: value(each) for each in attributes})
        for group, attributes in described().items()
    ]


@pytest.mark.parametrize("families", [*((each,) for each in Family), tuple(Family)])
def test_no_two_metrics_of_the_page_are_in_each_other_s_way(families: tuple[Family, ...]) -> None:
    text = page(everything(), *families)

    assert len(parsed(text)) == text.count("# TYPE ") > 100


def test_counters_are_named_without_total_where_they_are_described() -> None:
    metrics = parsed(page([MetricSample("process", {}, process_metrics()), *python_metrics()]))

    assert metrics["process_cpu_seconds"].type == "counter"
    assert [each.name for each in metrics["process_cpu_seconds"].samples] == [
        "process_cpu_seconds_total"
    ]
    assert metrics["process_open_fds"].type == "gauge"
    assert metrics["python_gc_collections"].type == "counter"


def test_histograms_stay_histograms() -> None:
    sample = MetricSample("MirrorFlow", {"source": "a"}, {"record-age-seconds": HISTOGRAM})
    metric = parsed(page([sample]))["kafka_connect_mirror_flow_record_age_seconds"]

    assert metric.type == "histogram"
    buckets = {each.labels["le"]: each.value for each in metric.samples if "le" in each.labels}
    assert buckets == {"0.5": 3, "1.0": 3, "+Inf": 5}


def test_numbers_that_are_none() -> None:
    sample = MetricSample("g", {}, {"x": math.nan, "y": math.inf})
    metrics = parsed(page([sample], Family.A))

    assert math.isnan(metrics["kafka_connect_g_x"].samples[0].value)
    assert metrics["kafka_connect_g_y"].samples[0].value == math.inf


def test_a_page_that_was_cut_off_can_be_told() -> None:
    text = page([MetricSample("g", {}, {"x": 1})])

    assert text.endswith("# EOF\n")
    with pytest.raises(ValueError, match="EOF"):
        parsed(text.removesuffix("# EOF\n"))
