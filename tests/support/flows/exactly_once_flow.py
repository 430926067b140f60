"""A topic, its copy, and the mirror's task that writes the copy exactly once, without a herder."""

from __future__ import annotations

from functools import partial

from connect.clock import Deadline
from connect.runtime.worker import Worker
from deploy.brokers import KafkaCluster
from tests.support.flows.exactly_once_mirror import OnceMirror, OnceTask
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import ReadRecord, numbers, read_partition
from tests.support.records.topics import create_topic, unique
from tests.support.waiting import wait_until

__all__ = ["TIMEOUT_S", "Flow"]


TIMEOUT_S = 60.0


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
