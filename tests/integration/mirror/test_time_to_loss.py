"""`time-to-loss-ms` warns before the source deletes records that are not copied yet."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.records.producing import Record, meanwhile, produce
from tests.support.records.topics import end_offset, start_offset
from tests.support.served import metric
from tests.support.waiting import wait_until

NAME = "kafka_connect_mirror_mirrorsourceconnector_time_to_loss_ms"
COUNT = 1_600
WAIT_S = 60.0
HOUR_MS = 3_600_000
SMALLEST_SEGMENT = {"segment.bytes": "1048576"}
DELETES_AT_ONCE = {"log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "500"}
MB = 1_000_000


def kilobytes(count: int) -> list[Record]:
    return [Record(b"x" * 1_000, b"%d" % number) for number in range(count)]


def slow(listener: str) -> dict[str, str]:
    """Properties of a flow that falls behind."""
    return {"mirror.rate.records": "1", "metrics.listener": listener}


def warning(flow: MirroredFlow, topic: str, listener: str) -> float:
    """The time to loss in ms, as soon as there is one."""

    def told() -> list[float]:
        found = metric(listener, NAME, topic=flow.remote(topic))
        return [value for _, value in found if math.isfinite(value)]

    (left_ms,) = wait_until(told, WAIT_S, "a loss is forecast")
    return left_ms


@pytest.mark.parametrize(
    ("configs", "at_most_ms"),
    [
        ({"retention.ms": str(HOUR_MS)}, HOUR_MS),
        ({"retention.ms": str(HOUR_MS), "cleanup.policy": "compact,delete"}, HOUR_MS),
    ],
    ids=["time", "compacted"],
)
def test_a_flow_that_falls_behind_knows_when_retention_will_win(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    listener: str,
    configs: dict[str, str],
    at_most_ms: int,
) -> None:
    flow, log = MirroredFlow(source_cluster, target_cluster), logs / "mirror.log"
    topic = flow.topic(configs={**configs, **SMALLEST_SEGMENT})
    produce(flow.source_servers, topic, kilobytes(COUNT))
    with running(flow.properties(slow(listener)), tmp_path, log) as mirror:
        flow.wait_records(topic, [1])
        left_ms = warning(flow, topic, listener)
        assert 0 <= left_ms <= at_most_ms
        assert left_ms >= at_most_ms - 10 * WAIT_S * 1_000
        stop_cleanly(mirror, log)


@pytest.fixture
def deleting_source(kafka: KafkaRuntime, session_logs: Path) -> Iterator[KafkaCluster]:
    """Its broker looks all the time for what retention deletes: the default is every 5 minutes."""
    with KafkaCluster(
        name="deleting", properties=DELETES_AT_ONCE, kafka=kafka, logs=session_logs
    ) as cluster:
        yield cluster


def test_a_flow_that_falls_behind_is_warned_before_the_log_is_too_large(
    deleting_source: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    listener: str,
) -> None:
    """While the log grows slowly the loss is far away and told; then the log outgrows its limit."""
    flow, log = MirroredFlow(deleting_source, target_cluster), logs / "mirror.log"
    by_size = {"retention.ms": "-1", "retention.bytes": str(32 * MB), **SMALLEST_SEGMENT}
    topic = flow.topic(configs=by_size)
    produce(flow.source_servers, topic, kilobytes(COUNT))

    def grow() -> None:
        produce(flow.source_servers, topic, kilobytes(5))

    with running(flow.properties(slow(listener)), tmp_path, log) as mirror:
        flow.wait_records(topic, [1])
        with meanwhile(grow):
            left_ms = warning(flow, topic, listener)
        assert left_ms > 0
        assert start_offset(flow.source_servers, topic) == 0, "nothing is deleted yet"
        produce(flow.source_servers, topic, kilobytes(34_000))
        copied = end_offset(flow.target_servers, flow.remote(topic))
        wait_until(
            lambda: start_offset(flow.source_servers, topic) > copied, WAIT_S, "what was forecast"
        )
        stop_cleanly(mirror, log)
