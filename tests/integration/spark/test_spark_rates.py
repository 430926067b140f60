"""Limits of a flow that Spark copies, changed through REST while its task runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from tests.support.flows.limits import (
    BACKLOG,
    EXACTLY_ONCE,
    KB,
    SLOW_RATE,
    WITHOUT,
    assert_throttled,
    produce_backlog,
)
from tests.support.flows.mirrored import MirroredFlow
from tests.support.flows.worker_flow import worker_flow
from tests.support.records.reading import contents, read_partition
from tests.support.waiting import wait_until

# Sessions of Spark.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SPARK = {"mirror.engine": "spark", "mirror.spark.batch.ms": "1000"}
MASTER = {"spark.master": "local[2]"}
START_S = 240.0


@pytest.mark.parametrize("once", [WITHOUT, EXACTLY_ONCE])
def test_limits_are_changed_while_spark_copies(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    once: str,
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    slow, free = flow.topic("slow", partitions=2), flow.topic("free", partitions=2)
    for topic in (slow, free):
        produce_backlog(flow, topic)
    limits = {"mirror.rate.topics": f"{slow}={SLOW_RATE}kB/s"}
    with worker_flow(flow, logs, tmp_path, once, {**SPARK, **limits}, MASTER) as running:
        wait_until(lambda: running.count(free) >= 2 * BACKLOG, START_S, "the free topic")
        assert running.count(slow) < BACKLOG
        # On a busy machine there are pauses between shards that are not made up for.
        assert 0.2 * SLOW_RATE < running.speed(slow, 6.0) * KB < 1.5 * SLOW_RATE
        assert_throttled(running, slow)

        started = running.starts()
        path = f"/connectors/{running.name}/config"
        # The flow's limit, instead of the topic's.
        faster = {"mirror.rate.topics": None, "mirror.rate.bytes": f"{4 * SLOW_RATE}kB"}
        running.group.accepted("PATCH", path, faster)
        wait_until(
            lambda: 1.5 * SLOW_RATE < running.speed(slow, 3.0) * KB < 6 * SLOW_RATE,
            30.0,
            "the copy at the new rate",
        )
        running.group.accepted("PATCH", path, {"mirror.rate.bytes": None})
        wait_until(lambda: running.count(slow) >= 2 * BACKLOG, START_S, "the rest")
        assert running.starts() == started, "the task was started anew, or got others"
        assert running.told("Applied the connector's changed config to running task") == 2
    for topic in (slow, free):
        for partition in (0, 1):
            copy = read_partition(
                flow.target_servers, flow.remote(topic), partition, isolation="read_committed"
            )
            source = read_partition(flow.source_servers, topic, partition)
            assert contents(copy) == contents(source)
