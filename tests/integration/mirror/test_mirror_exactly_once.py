"""The mirror's task writing exactly once, on real brokers: one worker's task, without a herder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connect.clients.config.settings import WireSettings
from connect.clients.transactions.coordinator import ProducerIdentity, TransactionCoordinator
from connect.runtime.states import InstanceId
from deploy.brokers import KafkaCluster
from tests.support.flows.exactly_once_flow import TIMEOUT_S, Flow
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import read_partition
from tests.support.records.topics import alter_topic
from tests.support.waiting import wait_until

TASK = InstanceId("mirror", 0)


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> Iterator[Flow]:
    opened = Flow(source_cluster, target_cluster)
    yield opened
    opened.close()


def test_batches_and_source_offsets_are_committed_together(flow: Flow) -> None:
    flow.write(500)
    task = flow.run()
    flow.arrived(500)
    task.stop()
    flow.once(500)
    stored = [
        record
        for number in range(flow.mirror.offset_partitions)
        for record in read_partition(
            flow.target, flow.mirror.offsets_topic, number, isolation="read_committed"
        )
    ]
    newest = {record.key: record.value for record in stored}
    assert newest == {
        b'["mirror",{"cluster":"A","partition":%d,"topic":"%s"}]'
        % (number, flow.topic.encode()): b'{"offset":499}'
        for number in flow.partitions
    }
    # And on from there.
    flow.write(100, start=500)
    flow.run()
    flow.arrived(600)
    flow.once(600)


def test_a_newer_run_fences_the_older_one_out(flow: Flow) -> None:
    flow.write(200)
    older = flow.run(transaction_boundary="interval", transaction_boundary_interval_ms="15000")
    flow.arrived(200, "read_uncommitted")
    assert flow.values(0) == []
    newer = flow.run(transaction_boundary="poll")
    flow.arrived(200)
    # What it had open is aborted; it hears of that when it goes on.
    flow.write(100, start=200)
    assert "Another producer has claimed" in older.fails()
    flow.worker.statuses.forget(TASK)
    flow.arrived(300)
    flow.once(300)
    assert newer.host.alive


def test_what_was_aborted_is_copied_again(flow: Flow) -> None:
    flow.write(200)
    task = flow.run(transaction_boundary="interval", transaction_boundary_interval_ms="10000")
    flow.arrived(200, "read_uncommitted")
    # Somebody ends the transaction who says to be the very same producer.
    context = task.host._task._context  # type: ignore[attr-defined]
    other = TransactionCoordinator(
        WireSettings(bootstrap=(server(flow.target),)), flow.mirror.transactional_id, 60_000
    )
    other._identity = ProducerIdentity(*context.transfer.producer)
    other._open = True
    try:
        other._submit(lambda: other._end(committed=False)).result(TIMEOUT_S)
        other._open = False
    finally:
        other.close()
    flow.write(100, start=200)
    flow.arrived(300)
    flow.once(300)
    assert len(flow.values(0, "read_uncommitted")) > 300, "nothing was aborted"
    assert context.transfer.producer[1] > other.identity.epoch


def test_a_record_too_large_stops_its_own_partition_only(flow: Flow) -> None:
    alter_topic(flow.target, flow.copy, {"max.message.bytes": "2000"})
    flow.write(50)
    produce(flow.source, flow.topic, numbered(1, start=50, size=5_000, partition=0))
    flow.write(50, start=51)
    task = flow.run()
    partial_0, whole_1 = list(range(50)), [*range(50), *range(51, 101)]
    wait_until(lambda: flow.values(1) == whole_1, TIMEOUT_S, "the other partition")
    wait_until(lambda: flow.values(0) == partial_0, TIMEOUT_S, "what is before the large record")

    def error(partition: int) -> str:
        errors = {each.name: each.error for each in task.host.health()}
        return errors[f"{flow.topic}-{partition}"] or ""

    why = "larger than the target topic's max.message.bytes"
    wait_until(lambda: why in error(0), TIMEOUT_S, "it says why")
    assert error(1) == ""
    alter_topic(flow.target, flow.copy, {"max.message.bytes": "1000000"})
    flow.write(50, start=101)
    wait_until(lambda: flow.values(0) == list(range(151)), TIMEOUT_S, "the rest")


def server(servers: str) -> tuple[str, int]:
    host, _, port = servers.rpartition(":")
    return host, int(port)
