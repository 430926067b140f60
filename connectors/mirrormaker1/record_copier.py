"""Copies records one by one: for message handlers, and where the key decides the partition.

Records of the group's consumer go to a librdkafka producer, which partitions like Java's default
partitioner. A source offset is acknowledged once all that was written for it, and for every record
before it, is acknowledged. Everything runs on the owner's thread; it never waits for the target
except in `flush`.

A broker refuses a whole batch for one bad record. So after a refusal the owner goes back to the
acknowledged positions, and the records up to the refused ones are sent one at a time: the record
that is then refused is the bad one. Some records of other partitions may be written again, in their
order, as after a restart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import confluent_kafka

from connect.clients.errors import from_librdkafka
from connect.clock import Deadline
from connect.errors import ConnectError
from connect.protocol.error_codes import ErrorCode
from connect.protocol.messages import TopicPartition
from connectors.mirrormaker1.batch_copier import OnRefused
from connectors.mirrormaker1.plugins import ConsumedRecord, MessageHandler, ProducedRecord

__all__ = ["AckedOffsets", "RecordCopier", "SameRecord"]

_FLUSH_TURN_S = 0.2
_ONE_AT_A_TIME_S = 0.005
_RETRY_S = 1.0

_BAD_RECORD = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
    }
)
"""Errors that are caused by a record itself, or by another record of its batch."""

_PURGED = (confluent_kafka.KafkaError._PURGE_QUEUE, confluent_kafka.KafkaError._PURGE_INFLIGHT)


class SameRecord(MessageHandler):
    """Writes each record as it is, to the topic of the same name."""

    def handle(self, record: ConsumedRecord) -> Sequence[ProducedRecord]:
        return (
            ProducedRecord(
                record.topic, record.value, record.key, record.headers, record.timestamp
            ),
        )


@dataclass(slots=True)
class _Pending:
    """A source offset, and how many of its records are not acknowledged. One more is counted until
    all of them were handed to the producer."""

    offset: int
    waiting: int = 1


@dataclass(slots=True)
class AckedOffsets:
    """The acknowledged position of one source partition. Pure."""

    position: int
    """The first source offset that is not acknowledged."""
    _pending: deque[_Pending] = field(default_factory=deque)
    _end: int = 0

    def begin(self, offset: int) -> _Pending:
        """Note that this offset, larger than all before, is being written."""
        pending = _Pending(offset)
        self._pending.append(pending)
        self._end = offset + 1
        return pending

    def done(self, pending: _Pending) -> None:
        """One of the offset's records is acknowledged, or all are handed over."""
        pending.waiting -= 1
        while self._pending and self._pending[0].waiting == 0:
            self._pending.popleft()
            self.position = self._pending[0].offset if self._pending else self._end


class RecordCopier:
    """Writes records of partitions that were added. Owns no client: `producer` is its owner's."""

    def __init__(
        self,
        producer: confluent_kafka.Producer,
        handler: MessageHandler,
        on_refused: OnRefused,
        on_failed: Callable[[ConnectError], None],
    ) -> None:
        """`on_failed`: called if the target refuses records for another reason than their own, such
        as a topic that is away; they are sent again. If several are refused at once, it is called
        once, and for each reason that is not retriable."""
        self._producer = producer
        self._handler = handler
        self._on_refused = on_refused
        self._on_failed = on_failed
        self._careful_to: dict[TopicPartition, int] = {}
        self._rewind_s: float | None = None
        self._partitions: dict[TopicPartition, AckedOffsets | None] = {}
        self._backlog: deque[tuple[AckedOffsets, _Pending, ConsumedRecord, ProducedRecord]]
        self._backlog = deque()
        self._ready: deque[Any] = deque()
        self.records = 0
        """Source records whose copies are acknowledged."""

    @property
    def partitions(self) -> Collection[TopicPartition]:
        return self._partitions.keys()

    @property
    def full(self) -> bool:
        """Whether nothing should be consumed now, because records wait for the producer."""
        return bool(self._backlog or self._ready) or self._rewind_s is not None

    @property
    def rewind_s(self) -> float | None:
        """Return in how many seconds the owner should call `rewind`; None: it need not."""
        return self._rewind_s

    def purge(self) -> None:
        """Drop what the producer has not sent yet, because the next owners of removed partitions
        may write their records. Those of the others are consumed anew."""
        self._producer.purge(in_flight=False)

    def rewind(self) -> dict[TopicPartition, int]:
        """Forget what was consumed but not acknowledged. Return the offsets at which the partitions
        must be consumed again. Call after `flush`."""
        self._rewind_s = None
        self._backlog.clear()
        self._ready.clear()
        positions = {key: acked.position for key, acked in self._partitions.items() if acked}
        for key, position in positions.items():
            self._partitions[key] = AckedOffsets(position)
        return positions

    def add(self, partition: TopicPartition) -> None:
        """Take records of this partition from now on."""
        self._partitions[partition] = None

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget these partitions: what is not yet handed to the producer is dropped, and later
        acknowledgements change nothing."""
        for partition in partitions:
            self._partitions.pop(partition, None)
            self._careful_to.pop(partition, None)
        kept = self._partitions.values()
        self._backlog = deque(each for each in self._backlog if any(each[0] is one for one in kept))
        self._ready = deque(each for each in self._ready if _key(each) in self._partitions)

    def position(self, partition: TopicPartition) -> int | None:
        """Return the acknowledged position; None before the first record."""
        acked = self._partitions.get(partition)
        return None if acked is None else acked.position

    def take(self, messages: Iterable[Any]) -> None:
        """Write these records of the consumer, which are in order in each partition. Raises the
        handler's error."""
        self._ready.extend(each for each in messages if _key(each) in self._partitions)
        self.step()

    def step(self) -> None:
        """Serve acknowledgements, and write what waits for room in the producer's buffer."""
        self._producer.poll(_ONE_AT_A_TIME_S if self._careful_to and self._backlog else 0)
        while self._rewind_s is None and self._send_backlog() and self._ready:
            self._handle(self._ready.popleft())

    def flush(self, deadline: Deadline) -> bool:
        """Wait until all that was handed to the producer is acknowledged or refused. Returns
        whether it was, before the deadline."""
        while len(self._producer):
            if deadline.expired():
                return False
            self._producer.flush(min(_FLUSH_TURN_S, deadline.remaining()))
        return True

    def _handle(self, message: Any) -> None:
        key = _key(message)
        acked = self._partitions[key]
        if acked is None:
            acked = self._partitions[key] = AckedOffsets(message.offset())
        pending = acked.begin(message.offset())
        consumed = _consumed(message)
        for produced in self._handler.handle(consumed):
            pending.waiting += 1
            self._backlog.append((acked, pending, consumed, produced))
        self._settle(acked, pending)

    def _send_backlog(self) -> bool:
        """Hand waiting records to the producer. Returns False if it takes no more now."""
        while self._backlog:
            if self._careful_to and len(self._producer):
                return False
            acked, pending, consumed, produced = self._backlog[0]
            try:
                self._send(acked, pending, consumed, produced)
            except BufferError:
                return False
            except confluent_kafka.KafkaException as error:
                self._not_taken(acked, pending, consumed, produced, error.args[0])
                if self._rewind_s is not None:
                    return False
            self._backlog.popleft()
        return True

    def _not_taken(
        self,
        acked: AckedOffsets,
        pending: _Pending,
        consumed: ConsumedRecord,
        produced: ProducedRecord,
        error: confluent_kafka.KafkaError,
    ) -> None:
        """The producer itself does not take a record: any, after a fatal error; those of a topic
        that is not there now; or this one, and no other."""
        reason = _reason(consumed, produced, error)
        if error.fatal():
            raise ConnectError(f"{reason}; start the mirror again: it goes on where it was")
        if reason.retriable:
            self._failed(acked, consumed, produced, error)
        else:
            self._refused(acked, pending, consumed, produced, error)

    def _send(
        self,
        acked: AckedOffsets,
        pending: _Pending,
        consumed: ConsumedRecord,
        produced: ProducedRecord,
    ) -> None:
        alone = bool(self._careful_to)

        def delivered(error: confluent_kafka.KafkaError | None, _: object) -> None:
            if error is None:
                self._settle(acked, pending)
            elif alone and error.code() in _BAD_RECORD:
                self._refused(acked, pending, consumed, produced, error)
            else:
                self._failed(acked, consumed, produced, error)

        self._producer.produce(
            produced.topic,
            value=produced.value,
            key=produced.key,
            partition=-1 if produced.partition is None else produced.partition,
            headers=list(produced.headers),
            timestamp=0 if produced.timestamp is None else produced.timestamp,
            on_delivery=delivered,
        )

    def _failed(
        self,
        acked: AckedOffsets,
        consumed: ConsumedRecord,
        produced: ProducedRecord,
        error: confluent_kafka.KafkaError,
    ) -> None:
        """Have all that is not acknowledged sent again, up to this record one at a time."""
        source = (consumed.topic, consumed.partition)
        if self._partitions.get(source) is not acked:
            return  # The partition was given up, or is consumed anew already.
        if error.code() in _PURGED:
            self._rewind_s = self._rewind_s or 0.0
            return
        self._careful_to[source] = max(self._careful_to.get(source, -1), consumed.offset)
        told = self._rewind_s == _RETRY_S
        self._rewind_s = self._rewind_s or 0.0
        if error.code() not in _BAD_RECORD:
            self._rewind_s = _RETRY_S
            reason = _reason(consumed, produced, error)
            if not told or not reason.retriable:
                self._on_failed(reason)

    def _refused(
        self,
        acked: AckedOffsets,
        pending: _Pending,
        consumed: ConsumedRecord,
        produced: ProducedRecord,
        error: confluent_kafka.KafkaError,
    ) -> None:
        source, offset = (consumed.topic, consumed.partition), consumed.offset
        if self._partitions.get(source) is acked and self._on_refused(
            source, offset, offset, str(_reason(consumed, produced, error))
        ):
            self._settle(acked, pending)

    def _settle(self, acked: AckedOffsets, pending: _Pending) -> None:
        acked.done(pending)
        if pending.waiting == 0:
            self.records += 1
        if pending.waiting == 0 and self._careful_to:
            self._careful_to = {
                key: to
                for key, to in self._careful_to.items()
                if (now := self._partitions.get(key)) is None or now.position <= to
            }


def _key(message: Any) -> TopicPartition:
    return (message.topic(), message.partition())


def _reason(
    consumed: ConsumedRecord, produced: ProducedRecord, error: confluent_kafka.KafkaError
) -> ConnectError:
    what = f"writing the record of {consumed.topic}-{consumed.partition} at {consumed.offset}"
    return from_librdkafka(error, f"{what} to {produced.topic}", f"Write on topic {produced.topic}")


def _consumed(message: Any) -> ConsumedRecord:
    kind, timestamp = message.timestamp()
    return ConsumedRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        None if kind == confluent_kafka.TIMESTAMP_NOT_AVAILABLE else timestamp,
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )
