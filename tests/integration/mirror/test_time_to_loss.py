"""`time-to-loss-ms` warns before the source deletes records that are not copied yet."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from tests.support.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.producing import Record, produce
from tests.support.served import metric
from tests.support.waiting import wait_until

NAME = "kafka_connect_mirror_mirrorsourceconnector_time_to_loss_ms"
COUNT = 1_600
WAIT_S = 60.0
HOUR_MS = 3_600_000


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
    topic = flow.topic(configs={**configs, "segment.bytes": "1048576"})
    records = [Record(b"x" * 1_000, b"%d" % number) for number in range(COUNT)]
    produce(flow.source_servers, topic, records)
    limit = {"mirror.rate.records": "1", "metrics.listener": listener}

    def warning() -> list[float]:
        found = metric(listener, NAME, topic=flow.remote(topic))
        return [value for _, value in found if math.isfinite(value)]

    with running(flow.properties(limit), tmp_path, log) as mirror:
        flow.wait_records(topic, [1])
        (left_ms,) = wait_until(warning, WAIT_S, "a loss is forecast")
        assert 0 <= left_ms <= at_most_ms
        assert left_ms >= at_most_ms - 10 * WAIT_S * 1_000
        stop_cleanly(mirror, log)
