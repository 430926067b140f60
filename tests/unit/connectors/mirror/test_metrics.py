"""MirrorMaker 2's attributes of one partition, from what the copier tells."""

from __future__ import annotations

import math

import pytest

from connect.metrics.engine_metrics import ClientFigures, SideFigures
from connect.metrics.histogram import HistogramValue
from connect.metrics.registry import REGISTRY_GROUP, MetricRegistry
from connectors.mirror.metrics import CopyTotals, PartitionMetrics, TaskPartitionMetrics
from tests.support.fake_clock import FakeClock

MM2_ATTRIBUTES = {
    "record-count", "record-rate", "byte-count", "byte-rate",
    "record-age-ms", "record-age-ms-min", "record-age-ms-max", "record-age-ms-avg",
    "replication-latency-ms", "replication-latency-ms-min", "replication-latency-ms-max",
    "replication-latency-ms-avg",
}  # fmt: skip
OUR_ATTRIBUTES = {
    "loss-count",
    "lost-record-count",
    "quarantined-record-count",
    "already-copied-record-count",
    "limited",
    "throttle-time-ms",
    "stuck",
    "shallow-record-count", "shallow-batch-count",
    "record-level-record-count", "record-level-batch-count",
}  # fmt: skip


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def metrics(clock: FakeClock) -> PartitionMetrics:
    return PartitionMetrics("a", "b", "a.orders", 3, clock=clock)


def test_before_anything_happened(metrics: PartitionMetrics) -> None:
    values = metrics.read()

    assert set(values) == MM2_ATTRIBUTES | OUR_ATTRIBUTES
    without_samples = {name for name, value in values.items() if math.isnan(value)}
    assert without_samples == {n for n in MM2_ATTRIBUTES if n.endswith(("-min", "-max", "-avg"))}
    assert all(value == 0 for name, value in values.items() if name not in without_samples)


def test_bytes_and_age_are_counted_when_fetched(
    metrics: PartitionMetrics, clock: FakeClock
) -> None:
    now = clock.now_ms()
    metrics.fetched(6_000, 30, now - 100, now)
    metrics.fetched(3_000, 10, now - 20, now)
    values = metrics.read()

    assert values["byte-count"] == 9_000
    assert values["byte-rate"] == pytest.approx(9_000 / 30)
    assert values["record-age-ms"] == 20
    assert (values["record-age-ms-min"], values["record-age-ms-max"]) == (20, 100)
    assert values["record-age-ms-avg"] == pytest.approx((30 * 100 + 10 * 20) / 40)
    assert values["record-count"] == 0


def test_records_and_latency_are_counted_when_acknowledged(
    metrics: PartitionMetrics, clock: FakeClock
) -> None:
    now = clock.now_ms()
    metrics.acked(40, now - 8, now)
    values = metrics.read()

    assert values["record-count"] == 40
    assert values["record-rate"] == pytest.approx(40 / 30)
    assert values["replication-latency-ms"] == values["replication-latency-ms-max"] == 8
    assert values["byte-count"] == 0


def test_records_without_a_timestamp_have_no_age(
    metrics: PartitionMetrics, clock: FakeClock
) -> None:
    metrics.fetched(10, 1, -1, clock.now_ms())
    metrics.acked(1, -1, clock.now_ms())
    values = metrics.read()

    assert values["record-count"] == 1
    assert math.isnan(values["record-age-ms-max"])
    assert math.isnan(values["replication-latency-ms-max"])


def test_both_ways_of_copying_are_counted(metrics: PartitionMetrics) -> None:
    metrics.shallow(100, 2)
    metrics.shallow(50, 1)
    metrics.record_level(7, 1)
    values = metrics.read()

    assert (values["shallow-record-count"], values["shallow-batch-count"]) == (150, 3)
    assert (values["record-level-record-count"], values["record-level-batch-count"]) == (7, 1)


def test_lag_in_time_grows_while_records_wait_and_nobody_reports(
    metrics: PartitionMetrics, clock: FakeClock
) -> None:
    metrics.set_lag(5, 2_000)
    clock.advance(60)

    assert metrics.read()["record-lag"] == 5
    assert metrics.read()["time-lag-ms"] == 62_000


def test_a_partition_that_is_caught_up_stays_so(
    metrics: PartitionMetrics, clock: FakeClock
) -> None:
    metrics.set_lag(0, 0)
    clock.advance(60)

    assert (metrics.read()["record-lag"], metrics.read()["time-lag-ms"]) == (0, 0)


def test_a_lag_that_is_not_known_is_not_shown(metrics: PartitionMetrics) -> None:
    metrics.set_lag(12, None)

    assert metrics.read()["record-lag"] == 12
    assert "time-lag-ms" not in metrics.read()


def test_partitions_of_a_task_count_into_its_totals_too(clock: FakeClock) -> None:
    totals = CopyTotals()
    one, other = (PartitionMetrics("a", "b", "a.t", n, totals=totals, clock=clock) for n in (0, 1))
    one.fetched(100, 7, -1, clock.now_ms())
    one.waits(7)
    other.fetched(100, 3, -1, clock.now_ms())
    other.waits(3)
    one.acked(7, -1, clock.now_ms())
    one.waits(-7)

    assert (totals.fetched, totals.acked, totals.waiting) == (10, 7, 3)
    registry = MetricRegistry()
    remove = totals.register(registry, "consumer", "producer", {"task": "0"})
    shown = {(each.group, *each.tags.values()): each.values for each in registry.collect()}
    assert shown["consumer-metrics", "consumer"] == {"incoming-byte-total": totals.bytes}
    assert shown["producer-metrics", "producer"] == {
        "outgoing-byte-total": totals.bytes,
        "record-send-total": 7,
    }
    assert totals.bytes > 0
    assert shown["MirrorFlow", "0"]["on-spark"] == 0.0
    remove()
    assert [each.group for each in registry.collect()] == ["metrics-registry"]


def test_the_engine_s_clients_have_the_attributes_of_java_s() -> None:
    totals = CopyTotals()
    totals.acked = 7
    registry = MetricRegistry()
    totals.register(registry, "consumer", "producer", {"task": "0"})
    source = SideFigures(2, 1.5, {1: (1000, 10), 2: (500, 5)})
    target = SideFigures(1, 2.5, {4: (20, 1400)})
    totals.clients = lambda: ClientFigures(30, 100, source, target)

    shown = {
        (each.group, *each.tags.values()): each.values
        for each in registry.collect()
        if "client-id" in each.tags
    }
    assert shown == {
        ("consumer-metrics", "consumer"): {
            "connection-count": 2,
            "incoming-byte-total": 1500,
            "outgoing-byte-total": 15,
        },
        ("consumer-fetch-manager-metrics", "consumer"): {"fetch-latency-avg": 1.5},
        ("consumer-node-metrics", "consumer", "node-1"): {
            "incoming-byte-total": 1000,
            "outgoing-byte-total": 10,
        },
        ("consumer-node-metrics", "consumer", "node-2"): {
            "incoming-byte-total": 500,
            "outgoing-byte-total": 5,
        },
        ("producer-metrics", "producer"): {
            "connection-count": 1,
            "incoming-byte-total": 20,
            "outgoing-byte-total": 1400,
            "record-send-total": 7,
            "request-latency-avg": 2.5,
            "buffer-total-bytes": 100,
            "buffer-available-bytes": 70,
        },
        ("producer-node-metrics", "producer", "node-4"): {
            "incoming-byte-total": 20,
            "outgoing-byte-total": 1400,
        },
    }


def test_ages_and_latencies_of_all_partitions_make_the_task_s_histograms(clock: FakeClock) -> None:
    totals = CopyTotals()
    one, other = (PartitionMetrics("a", "b", "a.t", n, totals=totals, clock=clock) for n in (0, 1))
    now_ms = clock.now_ms()
    for each in (one, other):
        each.fetched(100, 7, now_ms - 30, now_ms)
        each.acked(7, now_ms - 400, now_ms)
    one.fetched(100, 5, -1, now_ms)
    registry = MetricRegistry()
    totals.register(registry, "consumer", "producer", {"source": "a", "target": "b", "task": "0"})

    (sample,) = registry.collect("MirrorFlow")
    assert sample.tags == {"source": "a", "target": "b", "task": "0"}
    for name, total in (("record-age-seconds", 0.42), ("replication-latency-seconds", 5.6)):
        value = sample.values[name]
        assert isinstance(value, HistogramValue)
        # Not the five without a timestamp.
        assert sum(value.counts) == 14
        assert value.total == pytest.approx(total)


def test_registered_under_mirrormaker_s_tags_in_its_order() -> None:
    registry = MetricRegistry()
    task = TaskPartitionMetrics()
    task.register(registry, "m-0", "producer")
    task.add(("orders", 3), PartitionMetrics("a", "b", "a.orders", 3))

    sample = registry.collect()[0]
    assert sample.group == "MirrorSourceConnector"
    assert list(sample.tags.items()) == [
        ("source", "a"), ("target", "b"), ("topic", "a.orders"), ("partition", "3"),
    ]  # fmt: skip
    task.forget(("orders", 3))
    assert [s.group for s in registry.collect()] == [REGISTRY_GROUP]
    task.add(("orders", 3), PartitionMetrics("a", "b", "a.orders", 3))
    task.close()
    assert [s.group for s in registry.collect()] == [REGISTRY_GROUP]


def test_the_producer_has_the_records_of_each_copy() -> None:
    registry, now = MetricRegistry(), 1_700_000_000_000
    task = TaskPartitionMetrics()
    task.register(registry, "m-0", "producer")
    for key, records in ((("t", 0), 3), (("t", 1), 4), (("u", 0), 5)):
        partition = PartitionMetrics("a", "b", f"a.{key[0]}", key[1])
        partition.acked(records, -1, now)
        task.add(key, partition)
    sent = [each for each in registry.collect() if each.group == "producer-topic-metrics"]
    assert [(each.tags, each.values) for each in sent] == [
        ({"client-id": "producer", "topic": "a.t"}, {"record-send-total": 7}),
        ({"client-id": "producer", "topic": "a.u"}, {"record-send-total": 5}),
    ]


def test_the_replication_consumer_s_own_lag() -> None:
    registry = MetricRegistry()
    metrics = PartitionMetrics("a", "b", "a.t", 0, source_topic="t", client_id="a->b|x|y")
    metrics.set_lag(8, None)
    metrics.set_lag(4, None)
    task = TaskPartitionMetrics()
    task.register(registry, "m-0", "producer")
    task.add(("t", 0), metrics)

    consumer = next(s for s in registry.collect() if s.group == "consumer-fetch-manager-metrics")
    assert consumer.tags == {"client-id": "a->b|x|y", "topic": "t", "partition": "0"}
    assert consumer.values == {"records-lag": 4, "records-lag-max": 8, "records-lag-avg": 6}


def test_a_loss_is_told_for_a_day(metrics: PartitionMetrics, clock: FakeClock) -> None:
    assert not metrics.lost_lately(clock.now_ms())
    metrics.lost(3)
    clock.advance(23 * 3600)
    assert metrics.lost_lately(clock.now_ms())
    clock.advance(2 * 3600)
    assert not metrics.lost_lately(clock.now_ms())


def test_timestamps_later_than_the_clock_show_that_a_clock_is_wrong(
    metrics: PartitionMetrics, clock: FakeClock
) -> None:
    now = clock.now_ms()
    assert metrics.timestamps_ahead_ms(now) is None  # nothing was copied
    metrics.acked(10, now + 59_000, now)
    assert metrics.timestamps_ahead_ms(now) is None  # clocks may differ so much
    clock.advance(120)
    now = clock.now_ms()
    metrics.acked(10, now + 3_600_000, now)
    assert metrics.timestamps_ahead_ms(now) == 3_600_000
