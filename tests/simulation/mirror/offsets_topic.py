"""The offsets topic on the simulated target cluster, and a `TopicLog` of it.

Its log is that of the cluster's brokers, so a task that writes exactly once stores its offsets
there in transactions, and one that copies at least once stores them with the client of this module.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from kafka.partitioner.default import murmur2

from connect.clients.librdkafka.topic_log import LogRecord
from connect.clock import Deadline
from connect.errors import DeadlineExceeded, RetriableError
from connect.plugin import RecordMetadata
from connect.protocol.record_codec import Record, iter_records
from tests.simulation.kafka.cluster import Cluster
from tests.simulation.kafka.log import ABORT, Batch
from tests.simulation.kafka.partition import NO_LEADER, SimulatedPartition
from tests.simulation.mirror.internal_topics import MOST_LATE_S, TopicFaults
from tests.simulation.mirror.timeline import Timeline
from tests.support.records.batches import encode_batch

__all__ = ["CommittedRecords", "SimulatedOffsetLog"]

_RETRY_S = 0.1


class CommittedRecords:
    """Reads the records of one topic that are committed, in each partition's order."""

    def __init__(
        self, partitions: list[SimulatedPartition], take: Callable[[LogRecord, Batch], None]
    ) -> None:
        """`take(record, batch)`."""
        self._partitions = partitions
        self._take = take
        self._next = [0] * len(partitions)

    def read(self) -> None:
        """Take everything up to the last stable offsets."""
        for number, partition in enumerate(self._partitions):
            log = partition.log
            for batch in log.from_offset(self._next[number]):
                if batch.next > log.stable:
                    break
                self._next[number] = batch.next
                if batch.marker is None and batch.fate != ABORT:
                    for record in iter_records(batch.data):
                        taken = LogRecord(
                            number, record.offset, record.key, record.value, 0, record.headers
                        )
                        self._take(taken, batch)

    def reached(self, ends: list[int]) -> bool:
        return all(at >= end for at, end in zip(self._next, ends, strict=True))

    def ends(self) -> list[int]:
        return [partition.log.high for partition in self._partitions]


class SimulatedOffsetLog:
    """An `offset_store.OffsetLog`. What its owner has under way when it dies arrives in part."""

    def __init__(
        self,
        timeline: Timeline,
        cluster: Cluster,
        topic: str,
        faults: TopicFaults,
        on_record: Callable[[LogRecord], None],
        on_written: Callable[[Batch], None],
    ) -> None:
        self._on_written = on_written
        self._timeline = timeline
        self._cluster = cluster
        self._topic = topic
        self._faults = faults
        self._partitions = cluster.topics[topic].partitions
        self._records = CommittedRecords(self._partitions, lambda record, _: on_record(record))
        self._under_way = 0
        self._arrives_at = 0.0
        self._arrivals_left: int | None = None
        self._closed = False
        self._arrives_by = 0.0

    def start(self, deadline: Deadline) -> None:
        self.read_to_end(deadline)

    def send(self, key: bytes | None, value: bytes | None) -> Future[RecordMetadata]:
        sent: Future[RecordMetadata] = Future()
        timeline, faults = self._timeline, self._faults
        fails = timeline.random.random() < faults.failing
        arrives = not fails or timeline.random.random() < 0.5
        now = timeline.monotonic()
        self._under_way += 1
        self._arrives_at = max(self._arrives_at, now + timeline.random.uniform(*faults.write_s))
        number = (murmur2(key or b"") & 0x7FFFFFFF) % len(self._partitions)
        partition = self._partitions[number]

        def arrive() -> None:
            if self._arrivals_left is not None:
                if self._arrivals_left <= 0 or timeline.monotonic() > self._arrives_by:
                    self._under_way -= 1
                    return
                if partition.leader != NO_LEADER:
                    self._arrivals_left -= 1
            if partition.leader == NO_LEADER and not self._closed:
                timeline.after(_RETRY_S, arrive)
                return
            if arrives:
                data = encode_batch([Record(0, 0, key, value)], base_offset=0)
                self._on_written(self._cluster.write(partition.key, data))
            timeline.after(timeline.random.uniform(*faults.write_s), answer)

        def answer() -> None:
            self._under_way -= 1
            if fails:
                sent.set_exception(RetriableError(f"Producing to {self._topic} failed"))
            else:
                sent.set_result(RecordMetadata(self._topic, number, 0, 0))

        timeline.after(self._arrives_at - now, arrive)
        return sent

    def read_to_end(self, deadline: Deadline) -> None:
        timeline = self._timeline
        if not timeline.wait(lambda: not self._under_way, deadline.remaining()):
            raise DeadlineExceeded(f"Writing to topic {self._topic} did not finish in time")
        timeline.wait(lambda: False, timeline.random.uniform(*self._faults.read_s))
        ends = self._records.ends()

        def reached() -> bool:
            self._records.read()
            return self._records.reached(ends)

        if not timeline.wait(reached, deadline.remaining()):
            raise DeadlineExceeded(f"Reading topic {self._topic} to its end took too long")

    def stop(self, deadline: Deadline) -> None:
        self._timeline.wait(lambda: not self._under_way, deadline.remaining())
        self.die()

    def die(self) -> None:
        """Whoever writes is gone."""
        self._closed = True
        self._arrives_by = self._timeline.monotonic() + MOST_LATE_S
        if self._arrivals_left is None:
            self._arrivals_left = self._timeline.random.randint(0, max(0, self._under_way))
