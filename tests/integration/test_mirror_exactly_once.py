"""The mirror's task writing exactly once, on real brokers: one worker's task, without a herder."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from connect.clients.settings import WireSettings
from connect.clients.transaction_coordinator import ProducerIdentity, TransactionCoordinator
from connect.clock import Deadline
from connect.runtime.states import InstanceId
from connect.runtime.worker import Worker
from deploy.brokers import KafkaCluster
from tests.support.exactly_once_mirror import OnceMirror, OnceTask
from tests.support.producing import numbered, produce
from tests.support.reading import ReadRecord, numbers, read_partition
from tests.support.topics import alter_topic, create_topic, unique
from tests.support.waiting import wait_until

TIMEOUT_S = 60.0
TASK = InstanceId("mirror", 0)


class Flow:
    """A topic, its copy, and runs of the task that copies it."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster, partitions: int = 2) -> None:
        self.source, self.target = source.bootstrap_servers, target.bootstrap_servers
        self.topic = create_topic(self.source, "once", partitions=partitions)
        self.copy = create_topic(self.target, partitions=partitions, name=f"A.{self.topic}")
        self.partitions = range(partitions)
        self.mirror = OnceMirror(
            self.source,
            self.target,
            unique("once"),
            [f"{self.topic}-{n}" for n in self.partitions],
        )
        self.runs: list[OnceTask] = []
        self._worker: Worker | None = None

    @property
    def worker(self) -> Worker:
        if self._worker is None:
            self._worker = self.mirror.worker()
        return self._worker

    def run(self, **options: str) -> OnceTask:
        self.mirror.options.update({key.replace("_", "."): v for key, v in options.items()})
        task = self.mirror.run(self.worker)
        self.runs.append(task)
        return task

    def write(self, count: int, start: int = 0, size: int = 0) -> None:
        for partition in self.partitions:
            produce(
                self.source,
                self.topic,
                numbered(count, start=start, size=size, partition=partition),
            )

    def read(self, partition: int, isolation: str = "read_committed") -> list[ReadRecord]:
        return read_partition(self.target, self.copy, partition, isolation=isolation)

    def values(self, partition: int, isolation: str = "read_committed") -> list[int]:
        return numbers(self.read(partition, isolation))

    def arrived(self, count: int, isolation: str = "read_committed") -> None:
        for partition in self.partitions:
            wait_until(
                partial(self._has, partition, count, isolation), TIMEOUT_S, f"{count} records"
            )

    def _has(self, partition: int, count: int, isolation: str) -> bool:
        assert not (self.runs and self.runs[-1].failure()), self.runs[-1].failure()
        return len(self.read(partition, isolation)) >= count

    def once(self, count: int) -> None:
        """Every record is there once, in order."""
        for partition in self.partitions:
            assert self.values(partition) == list(range(count))

    def close(self) -> None:
        for task in self.runs:
            task.stop()
        if self._worker is not None:
            self._worker.stop(Deadline(5))


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
    task = flow.run(transaction_boundary="interval", transaction_boundary_interval_ms="4000")
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
    errors = {each.name: each.error for each in task.host.health()}
    assert "larger than the target topic's max.message.bytes" in str(errors[f"{flow.topic}-0"])
    assert errors[f"{flow.topic}-1"] is None
    alter_topic(flow.target, flow.copy, {"max.message.bytes": "1000000"})
    flow.write(50, start=101)
    wait_until(lambda: flow.values(0) == list(range(151)), TIMEOUT_S, "the rest")


def server(servers: str) -> tuple[str, int]:
    host, _, port = servers.rpartition(":")
    return host, int(port)
