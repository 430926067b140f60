"""Partitions that have become heavy move to other tasks while they are copied, and few others."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs
from tests.support.flows.worker_flow import worker_flow
from tests.support.records.streams import NumberedStream
from tests.support.waiting import wait_until

PARTITIONS, EACH = 8, 4
"""In all, and of each of two tasks."""
MEASURED = {"mirror.assignment": "measured", "mirror.assignment.interval.seconds": "8"}


@pytest.mark.slow
@pytest.mark.parametrize("once", ["disabled", "enabled"])
def test_heavy_partitions_of_one_task_are_spread_over_two(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    once: str,
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    topic = flow.topic(partitions=PARTITIONS)
    with worker_flow(flow, logs, tmp_path, once, MEASURED) as running:
        before = wait_until(running.dealt_out, 60.0, "tasks")
        assert before is not None
        assert [len(task) for task in before] == [EACH, EACH]
        heavy = {int(name.rpartition("-")[2]) for name in before[0]}
        with NumberedStream(flow.source_servers, topic, heavy, rate=2000, size=500) as stream:

            def spread() -> list[set[str]] | None:
                now = running.dealt_out()
                return None if before[0] <= now[0] else now

            after = wait_until(spread, 60.0, "heavy partitions to be in either task")
            assert after is not None
            had = running.count(topic)
            wait_until(lambda: running.count(topic) > had + 1000, 60.0, "copying to go on")
        flow.wait_records(topic, [stream.counts.get(number, 0) for number in range(PARTITIONS)])
        assert before[0] & after[0], "all of them moved"
        assert before[1] <= after[1], "idle ones moved"

        def traces() -> list[str]:
            status = running.group.until_running(running.name, tasks=2)
            return [task["trace"] for task in status["tasks"] if "trace" in task]

        wait_until(lambda: not traces(), 30.0, "all partitions to be well")
    assert_equal_logs(flow, topic)
