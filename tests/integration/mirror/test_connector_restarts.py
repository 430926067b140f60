"""The mirror's connectors are restarted with their tasks over REST, as after a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs
from tests.support.flows.worker_flow import worker_flow
from tests.support.records.groups import checkpoints, commit, wait_group
from tests.support.records.producing import numbered, produce


@pytest.mark.slow
def test_records_and_groups_go_on_after_a_restart_with_all_tasks(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    """Checkpoints of a group that only goes forward only go forward."""
    flow = MirroredFlow(source_cluster, target_cluster)
    topic, group = flow.topic(), f"{flow.prefix}.g"
    with worker_flow(flow, logs, tmp_path, "disabled", {"tasks.max": "1"}) as running:
        names = {running.name: "Source", f"{flow.prefix}-checkpoints": "Checkpoint"}
        follow = {
            **running.config,
            "connector.class": "MirrorCheckpointConnector",
            "checkpoints.topic.replication.factor": "1",
            "emit.checkpoints.interval.seconds": "1",
            "refresh.groups.interval.seconds": "1",
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": "1",
            "groups": f"{flow.prefix}.*",
        }
        running.group.create(f"{flow.prefix}-checkpoints", follow)
        for end in (50, 100, 150):
            produce(flow.source_servers, topic, numbered(50, start=end - 50))
            flow.wait_records(topic, [end])
            commit(flow.source_servers, group, {(topic, 0): end})
            wait_group(flow.target_servers, group, flow.remote(topic), end)
            for name in names:
                path = f"/connectors/{name}/restart?includeTasks=true&onlyFailed=false"
                assert running.group.accepted("POST", path).status == 202
            for name in names:
                running.group.until_running(name, 1)
    assert_equal_logs(flow, topic)
    offsets = [each.downstream_offset for each in checkpoints(flow, group)]
    assert offsets == sorted(offsets)
    assert offsets[-1] == 150
