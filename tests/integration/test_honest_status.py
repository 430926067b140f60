"""A task is RUNNING while a partition of it stands still: all that tells of it says so."""

from __future__ import annotations

import json
from pathlib import Path

from deploy.brokers import KafkaCluster
from tests.support.mirrored import MirroredFlow, read_all, running, stop_cleanly
from tests.support.producing import Record, numbered, produce
from tests.support.served import health_of, metric
from tests.support.topics import alter_topic
from tests.support.waiting import wait_until

# "Within seconds"; generous, as machines that run tests are busy.
SOON_S = 30.0


def newest_status(flow: MirroredFlow) -> dict[str, object]:
    """That of the source connector's task, as any worker of the group reads it."""
    statuses = [
        json.loads(record.value)
        for record in read_all(flow.target_servers, f"mm2-status.{flow.a}.internal")
        if record.key == b"status-task-MirrorSourceConnector-0" and record.value is not None
    ]
    return dict(statuses[-1]) if statuses else {}


def test_a_stuck_partition_is_seen_everywhere_and_only_it(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    listener: str,
) -> None:
    flow, log = MirroredFlow(source_cluster, target_cluster), logs / "mirror.log"
    stuck, well = flow.topic("stuck"), flow.topic("well")
    produce(flow.source_servers, well, numbered(10))
    produce(flow.source_servers, stuck, numbered(10))
    properties = flow.properties({"metrics.listener": listener, "tasks.max": "1"})
    with running(properties, tmp_path, log) as mirror:
        for topic in (stuck, well):
            flow.wait_records(topic, [10])
        assert newest_status(flow)["trace"] is None
        alter_topic(flow.target_servers, flow.remote(stuck), {"max.message.bytes": "20000"})
        produce(flow.source_servers, stuck, [Record(b"x" * 50_000), *numbered(5, start=10)])
        produce(flow.source_servers, well, numbered(10, start=10))

        def trouble() -> str:
            return str(newest_status(flow).get("trace") or "")

        wait_until(trouble, SOON_S, "the status says what does not move")
        assert newest_status(flow)["state"] == "RUNNING"
        assert "1 of 2 partitions do not move" in trouble()
        assert f"{stuck}-0: " in trouble()
        assert "max.message.bytes" in trouble()
        health = json.dumps(health_of(listener))
        assert '"healthy": false' in health
        assert "max.message.bytes" in health
        name = "kafka_connect_mirror_mirrorsourceconnector_stuck"
        for topic, figure in ((stuck, 1.0), (well, 0.0)):
            ((_, value),) = metric(listener, name, topic=flow.remote(topic))
            assert value == figure, topic
        flow.wait_records(well, [20])

        alter_topic(flow.target_servers, flow.remote(stuck), {"max.message.bytes": "1000000"})
        flow.wait_records(stuck, [16])
        wait_until(lambda: not trouble(), SOON_S, "the status is clean again")
        stop_cleanly(mirror, log)
