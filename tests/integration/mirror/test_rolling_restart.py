"""The workers of a group are restarted one after another, as for an upgrade, while records come in:
the mirror's connectors lose nothing and double nothing, and groups go on at the right record."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from tests.support.flows.mirrored import MirroredFlow
from tests.support.flows.rolling import (
    assert_copied_once,
    assert_group_follows,
    create_others,
    wait_for_more,
)
from tests.support.flows.worker_flow import worker_flow
from tests.support.records.streams import NumberedStream

PARTITIONS, TASKS = 4, 2
ROUNDS = 2
# Longer than a worker is away, and shorter: it gets its tasks back, or they move twice.
STAYS, MOVES = "60000", "0"


@pytest.mark.slow
@pytest.mark.parametrize("delay_ms", [STAYS, MOVES], ids=["tasks-wait", "tasks-move"])
@pytest.mark.parametrize("once", ["disabled", "enabled"])
def test_workers_are_restarted_one_after_another_under_load(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    once: str,
    delay_ms: str,
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    topic = flow.topic(partitions=PARTITIONS)
    worker = {"scheduled.rebalance.max.delay.ms": delay_ms}
    with worker_flow(flow, logs, tmp_path, once, {}, worker) as running:
        create_others(running)
        running.group.until_running(running.name, TASKS)
        with NumberedStream(flow.source_servers, topic, PARTITIONS, rate=2_000) as stream:
            for _ in range(ROUNDS):
                for each in running.group.workers:
                    wait_for_more(running, topic)
                    each.stop()
                    if delay_ms == MOVES:
                        # The other worker has everything, and copies.
                        running.group.until_running(running.name, TASKS)
                        wait_for_more(running, topic)
                    each.start().await_ready()
                    running.group.until_running(running.name, TASKS)
            wait_for_more(running, topic)
        assert_copied_once(flow, topic, stream.counts)
        assert_group_follows(flow, topic, stream.counts)
