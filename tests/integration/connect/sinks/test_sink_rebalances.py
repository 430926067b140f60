"""Partitions move between sink tasks on a real broker; nothing is lost, nothing comes twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import confluent_kafka
import pytest

from connect.runtime.states import State
from connect.sdk import SinkRecord, SinkTask, TopicPartition
from deploy.brokers import KafkaCluster
from tests.support.records.topics import create_topic, unique
from tests.support.waiting import wait_until
from tests.support.workers.bench import Bench
from tests.support.workers.plugins import Events, SimpleSinkConnector

PARTITIONS = 4
PER_PARTITION = 25
STRATEGIES = ["RangeAssignor", "CooperativeStickyAssignor"]


class SharingSinkConnector(SimpleSinkConnector):
    """As many tasks as it may have; they tell what they were given as "<task> <event>"."""

    def task_class(self) -> type[SinkTask]:
        return SharingSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self.config] * max_tasks


class SharingSinkTask(SinkTask):
    """`begin.at`: the offset it wants each partition to be read from."""

    def start(self, config: Mapping[str, str]) -> None:
        self._topic, self._begin_at = config["topics"], config.get("begin.at")

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        for place in partitions:
            self._tell(f"open {place[1]}")
            if self._begin_at is not None:
                self.context.seek({place: int(self._begin_at)})

    def put(self, records: Sequence[SinkRecord]) -> None:
        for record in records:
            self._tell(f"put {record.original_partition} {record.original_offset}")

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        for (_, partition), offset in offsets.items():
            self._tell(f"commit {partition} {offset}")
        return offsets

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        assert set(partitions) <= self.context.assignment()
        for _, partition in partitions:
            self._tell(f"close {partition}")

    def stop(self) -> None:
        """Nothing was opened."""

    def _tell(self, event: str) -> None:
        name = f"{self.context.connector_name}-{self.context.task_index}"
        Events.tell(self._topic, f"{name} {event}")


class Group:
    """Connectors of one consumer group, and what all their tasks tell."""

    def __init__(self, bench: Bench, strategy: str) -> None:
        self.bench = bench
        self.topic = create_topic(bench.servers, "shared", partitions=PARTITIONS)
        self._strategy = strategy
        self._group = unique("group")
        self._sent = 0

    def put_connector(self, name: str, tasks: int, **config: str) -> None:
        prefix = "consumer.override."
        self.bench.herder.put_connector(
            name,
            {
                "connector.class": "SharingSink",
                "name": name,
                "tasks.max": str(tasks),
                "topics": self.topic,
                f"{prefix}group.id": self._group,
                f"{prefix}heartbeat.interval.ms": "200",
                f"{prefix}partition.assignment.strategy": f"x.y.{self._strategy}",
                **{key.replace("_", "."): value for key, value in config.items()},
            },
        )

    def produce(self) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": self.bench.servers})
        for number in range(PER_PARTITION):
            for partition in range(PARTITIONS):
                producer.produce(self.topic, b"%d" % number, partition=partition)
        assert producer.flush(30) == 0
        self._sent += PER_PARTITION

    def events(self) -> list[tuple[str, ...]]:
        """(task, what, partition, offset)."""
        return [tuple(event.split()) for event in Events.of(self.topic)]

    def has_all(self) -> None:
        """Everything produced was put, in the order of each partition and only once."""
        expected = {str(partition): self._sent for partition in range(PARTITIONS)}

        def puts() -> dict[str, list[int]]:
            found: dict[str, list[int]] = {partition: [] for partition in expected}
            for event in self.events():
                if event[1] == "put":
                    found[event[2]].append(int(event[3]))
            return found

        wait_until(
            lambda: all(len(offsets) >= self._sent for offsets in puts().values()), 30.0, "puts"
        )
        assert puts() == {partition: list(range(n)) for partition, n in expected.items()}

    def owners(self) -> dict[str, str]:
        """Of the partitions that were opened and not closed since: the task that has each."""
        owners: dict[str, str] = {}
        for task, what, partition, *_ in self.events():
            if what == "open":
                assert partition not in owners, f"{partition} was opened while {owners} had it"
                owners[partition] = task
            elif what == "close":
                assert owners.pop(partition) == task
        return owners

    def shared_by(self, *tasks: str) -> None:
        """Wait until these tasks have all partitions between them."""

        def shared() -> bool:
            owners = self.owners()
            return len(owners) == PARTITIONS and set(owners.values()) == set(tasks)

        wait_until(shared, 30.0, f"{tasks} to have all partitions")


@pytest.fixture
def bench(target_cluster: KafkaCluster) -> Iterator[Bench]:
    # No commit is due in the time of a test but those of rebalances.
    bench = Bench(target_cluster, {"offset.flush.interval.ms": "600000"})
    bench.plugins.register(SharingSinkConnector)
    yield bench
    bench.close()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_partitions_move_as_tasks_come_and_go_and_every_record_is_put_once(
    bench: Bench, strategy: str
) -> None:
    group = Group(bench, strategy)
    one, two = unique("one"), unique("two")
    group.put_connector(one, 1)
    group.shared_by(f"{one}-0")
    group.produce()
    group.has_all()
    group.put_connector(two, 1)
    group.shared_by(f"{one}-0", f"{two}-0")
    group.produce()
    group.has_all()
    group.put_connector(one, 2)
    group.shared_by(f"{one}-0", f"{one}-1", f"{two}-0")
    group.produce()
    group.has_all()
    bench.herder.delete_connector(two)
    group.shared_by(f"{one}-0", f"{one}-1")
    group.produce()
    group.has_all()
    bench.becomes(State.RUNNING, State.RUNNING, State.RUNNING, name=one)


def test_a_cooperative_task_keeps_what_does_not_move(bench: Bench) -> None:
    group = Group(bench, "CooperativeStickyAssignor")
    one, two = unique("one"), unique("two")
    group.put_connector(one, 1)
    group.shared_by(f"{one}-0")
    group.put_connector(two, 1)
    group.shared_by(f"{one}-0", f"{two}-0")
    closed = [event for event in group.events() if event[1] == "close"]
    assert len(closed) == PARTITIONS // 2


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_partition_that_leaves_is_asked_about_then_closed_then_committed(
    bench: Bench, strategy: str
) -> None:
    group = Group(bench, strategy)
    one, two = unique("one"), unique("two")
    group.put_connector(one, 1)
    group.shared_by(f"{one}-0")
    group.produce()
    group.has_all()
    group.put_connector(two, 1)
    group.shared_by(f"{one}-0", f"{two}-0")
    moved = {partition for partition, task in group.owners().items() if task == f"{two}-0"}
    for partition in moved:
        life = [(task, what) for task, what, at, *_ in group.events() if at == partition]
        assert [event for event in life if event[1] != "put"] == [
            (f"{one}-0", "open"),
            (f"{one}-0", "commit"),
            (f"{one}-0", "close"),
            (f"{two}-0", "open"),
        ]
    assert moved


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_task_may_begin_elsewhere_when_a_partition_is_opened(bench: Bench, strategy: str) -> None:
    group = Group(bench, strategy)
    group.produce()
    group.put_connector(unique("late"), 1, begin_at=str(PER_PARTITION - 5))
    expected = [(str(p), str(o)) for p in range(PARTITIONS) for o in range(20, PER_PARTITION)]

    def puts() -> list[tuple[str, ...]]:
        return sorted(event[2:] for event in group.events() if event[1] == "put")

    wait_until(lambda: len(puts()) >= len(expected), 30.0, "the last records")
    assert puts() == sorted(expected)
    assert all(a <= b for a, b in pairwise(puts()))
