"""Histograms of durations, in code and on the page."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from connect.metrics.exposition import render
from connect.metrics.histogram import DurationHistogram, HistogramValue
from connect.metrics.naming import Family
from connect.metrics.registry import MetricSample

FLOW = {"source": "a", "target": "b", "connector": "MirrorSourceConnector", "task": "0"}


def counted(value: HistogramValue) -> dict[float, int]:
    """The counts above 0, by the bound of the bucket; those above all bounds by infinity."""
    bounds = (*value.bounds, float("inf"))
    return {bound: n for bound, n in zip(bounds, value.counts, strict=True) if n}


@pytest.mark.parametrize(
    ("ms", "bound"),
    [
        (0, 0.001), (1, 0.001), (2, 0.002), (3, 0.005), (500, 0.5), (501, 1.0),
        (86_400_000, 86_400.0), (86_400_001, float("inf")),
    ],
)  # fmt: skip
def test_a_bound_belongs_to_its_bucket(ms: int, bound: float) -> None:
    histogram = DurationHistogram()
    histogram.record(ms, 1)

    assert counted(histogram.read()) == {bound: 1}
    assert histogram.read().total == ms / 1000


def test_a_value_counts_as_often_as_its_batch_has_records() -> None:
    histogram = DurationHistogram()
    histogram.record(40, 28)
    histogram.record(30, 2)

    assert counted(histogram.read()) == {0.05: 30}
    assert histogram.read().total == pytest.approx(1.18)


def test_the_sum_never_falls_when_the_source_s_clock_is_ahead() -> None:
    histogram = DurationHistogram()
    histogram.record(100, 1)
    histogram.record(-60_000, 10)

    assert counted(histogram.read()) == {0.001: 10, 0.1: 1}
    assert histogram.read().total == 0.1


def test_the_page_has_cumulative_buckets_a_sum_and_a_count() -> None:
    value = HistogramValue((0.5, 1.0), (3, 0, 2), 12.5)
    sample = MetricSample("MirrorFlow", FLOW, {"replication-latency-seconds": value})
    name = "kafka_connect_mirror_flow_replication_latency_seconds"
    text = "".join(render([sample], (Family.A,)))

    tags = 'source="a",target="b",connector="MirrorSourceConnector",task="0"'
    assert text.splitlines()[1:] == [
        f"# TYPE {name} histogram",
        f'{name}_bucket{{{tags},le="0.5"}} 3',
        f'{name}_bucket{{{tags},le="1.0"}} 3',
        f'{name}_bucket{{{tags},le="+Inf"}} 5',
        f"{name}_sum{{{tags}}} 12.5",
        f"{name}_count{{{tags}}} 5",
    ]
    (family,) = text_string_to_metric_families(text)
    assert (family.name, family.type) == (name, "histogram")


def test_the_name_is_the_same_in_every_family() -> None:
    sample = MetricSample("MirrorFlow", FLOW, {"record-age-seconds": DurationHistogram().read()})
    once = "".join(render([sample], (Family.A,)))

    assert "kafka_connect_mirror_flow_record_age_seconds_count{" in once
    assert "".join(render([sample], tuple(Family))) == once
