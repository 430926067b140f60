"""Producers that go on while a test breaks things, and the check of what was copied meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Collection
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, Message, Producer

from connect.errors import ConnectError, DeadlineExceeded
from tests.support.copier.copying import CopyRun
from tests.support.records.reading import ReadRecord, read_partition
from tests.support.records.topics import unique

__all__ = ["NumberedStream", "assert_copied"]

_FLUSH_S = 60.0
_TRANSACTION_RECORDS = 20


class NumberedStream:
    """While it is open, a thread produces records numbered from 0 in every partition, idempotently,
    with value `<partition>:<number>` padded to `size` bytes, about `rate` each second in all.
    `partitions`: their number, or which.

    `transactional`: in transactions of 20 records, of which every fifth is aborted; the numbers of
    aborted records come again. Leaving it waits until all is acknowledged.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        partitions: int | Collection[int] = 1,
        *,
        rate: int = 1_000,
        size: int = 200,
        transactional: bool = False,
    ) -> None:
        written = range(partitions) if isinstance(partitions, int) else partitions
        self.counts = dict.fromkeys(written, 0)
        """Records produced and not aborted, by partition. Final once it is closed."""
        self._topic = topic
        self._pause_s = 0.02
        self._burst = max(1, round(rate * self._pause_s))
        self._size = size
        self._transactional = transactional
        settings: dict[str, str | int | bool] = {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": 5,
            "topic.metadata.refresh.interval.ms": 1_000,
            "log_level": 0,
        }
        if transactional:
            settings["transactional.id"] = unique("stream")
            settings["transaction.timeout.ms"] = 60_000
        self._producer = Producer(settings)
        self._stop = threading.Event()
        self._errors: list[str] = []
        self._thread = threading.Thread(target=self._run, name=f"stream-{topic}")

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None and not self._transactional:
            self._errors.append(str(error))

    def _send(self, partition: int, number: int) -> None:
        value = b"%d:%d" % (partition, number)
        self._producer.produce(
            self._topic,
            value=value.ljust(self._size, b"."),
            partition=partition,
            on_delivery=self._delivered,
        )

    def _run(self) -> None:
        try:
            if self._transactional:
                self._run_transactions()
            else:
                self._run_plain()
        except Exception as error:  # noqa: BLE001 - raised again by the test's thread
            self._errors.append(repr(error))

    def _run_plain(self) -> None:
        while not self._stop.is_set():
            for _ in range(self._burst):
                for partition, number in self.counts.items():
                    self._send(partition, number)
                    self.counts[partition] = number + 1
            self._producer.poll(0)
            self._stop.wait(self._pause_s * len(self.counts))
        if self._producer.flush(_FLUSH_S):
            raise DeadlineExceeded(f"the stream to {self._topic} was not acknowledged in time")

    def _run_transactions(self) -> None:
        producer = self._producer
        producer.init_transactions(_FLUSH_S)
        turn = 0
        while not self._stop.is_set():
            producer.begin_transaction()
            for partition, number in self.counts.items():
                for n in range(number, number + _TRANSACTION_RECORDS):
                    self._send(partition, n)
            turn += 1
            if turn % 5 == 0:
                producer.flush(_FLUSH_S)
                producer.abort_transaction(_FLUSH_S)
            else:
                producer.commit_transaction(_FLUSH_S)
                for partition in self.counts:
                    self.counts[partition] += _TRANSACTION_RECORDS
            self._stop.wait(self._pause_s)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join(2 * _FLUSH_S)
        self._producer.purge()
        self._producer.poll(0)
        if error is None and (self._errors or self._thread.is_alive()):
            raise ConnectError(f"the stream to {self._topic} failed: {self._errors[:3]}")


def assert_copied(
    run: CopyRun,
    source: tuple[str, str],
    target: tuple[str, str],
    partition: int = 0,
    *,
    isolation: str = "read_uncommitted",
    duplicates: int = 0,
) -> None:
    """Nothing of a partition is lost, its order is kept, at most `duplicates` records came twice,
    and `run.mapping` says where each record is. `source`, `target`: (servers, topic)."""
    name = f"{source[1]}-{partition}"
    before = read_partition(*source, partition, isolation=isolation)
    after = read_partition(*target, partition)
    assert before, f"{name} is empty: nothing was tested"
    seen: dict[bytes | None, ReadRecord] = {}
    for record in after:
        seen.setdefault(record.value, record)
    doubled = len(after) - len(seen)
    values = [record.value for record in before]
    lost = [value for value in values if value not in seen]
    assert not lost, f"{name}: {len(lost)} of {len(values)} records were lost, first {lost[:3]}"
    assert list(seen) == values, f"{name}: the order changed ({doubled} records came twice)"
    assert doubled <= duplicates, f"{name}: {doubled} records came twice, not {duplicates}"
    mapping = run.mapping[source[1], partition]
    contents = {record.offset: record.value for record in after}
    wrong = [r.offset for r in before if contents.get(mapping.get(r.offset, -1)) != r.value]
    assert not wrong, f"{name}: {len(wrong)} source offsets map wrongly, first {wrong[:3]}"
