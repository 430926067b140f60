"""Simulated internal topics of one partition, and the clients of one process that use them.

Reading is late, acknowledgements get lost, a producer without idempotence then writes again. The
leader's producer writes in transactions, and is fenced by the next one of its id.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from connect.clients.librdkafka.topic_log import LogRecord
from connect.clock import Deadline
from connect.errors import BrokerError, BrokerUnavailable, ConnectError, DeadlineExceeded
from connect.plugin import RecordMetadata
from tests.simulation.workers.engine import Crashed, Engine, Process

__all__ = ["Faults", "SimLeaderProducer", "SimTopic", "SimTopicLog"]

_RETRY_S = 2.0
_PRODUCER_FENCED = 90


class Faults:
    """How likely it is that something goes wrong now, each time that it can."""

    def __init__(self) -> None:
        self.lost_ack = 0.0
        self.crash_in_write = 0.0
        self.late_s = 0.0
        """The longest that a read, a write or an answer is late."""


class SimTopic:
    """One partition. `claims`: by transactional id, the epoch of the newest producer."""

    def __init__(self, engine: Engine, name: str, faults: Faults) -> None:
        self.engine = engine
        self.name = name
        self.faults = faults
        self.records: list[LogRecord] = []
        self.end = 0
        self.claims: dict[str, int] = {}
        self.readers: list[SimTopicLog] = []
        self.on_append: Callable[[LogRecord, str, bool], None] = lambda record, by, again: None
        """Called for each record; `again`: its producer has written it before."""

    def append(
        self,
        records: Sequence[tuple[bytes | None, bytes | None]],
        *,
        by: str,
        marker: bool = False,
        again: bool = False,
    ) -> int:
        """Append them as one; `marker`: and the end of their transaction."""
        first = self.end
        for key, value in records:
            record = LogRecord(0, self.end, key, value, 0)
            self.end += 1
            self.records.append(record)
            self.on_append(record, by, again)
        self.end += marker
        for reader in self.readers:
            reader.there_is_more()
        return first

    def latency_s(self) -> float:
        random = self.engine.random
        if self.faults.late_s and random.random() < 0.2:
            return random.uniform(0.0, self.faults.late_s)
        return random.uniform(0.001, 0.02)


class _Waited(Future[Any]):
    """A future that is waited for in virtual time."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self._process = process

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            engine = self._process.engine
            assert timeout is not None, "a wait without a timeout"
            if not engine.block(self._process, engine.now + timeout, self.done):
                raise FutureTimeout
        return super().result(0)


class SimTopicLog:
    """Stands for `TopicLog`, of one process."""

    def __init__(
        self,
        process: Process,
        topic: SimTopic,
        on_record: Callable[[LogRecord], None],
        *,
        insists: bool,
    ) -> None:
        """`insists`: what is not acknowledged is written again, without end."""
        self._process = process
        self._topic = topic
        self._on_record = on_record
        self._insists = insists
        self._engine = topic.engine
        self._read = 0
        self.position = 0
        self.partitions = 1
        self._asked = False
        self._queue: deque[tuple[bytes | None, bytes | None, Future[Any]]] = deque()
        self._sending = False
        self._written = False

    def start(self, deadline: Deadline) -> None:
        self._topic.readers = [r for r in self._topic.readers if r._process.alive]
        self._topic.readers.append(self)
        self.there_is_more()
        self.read_to_end(deadline)

    def stop(self, deadline: Deadline) -> None:
        if self in self._topic.readers:
            self._topic.readers.remove(self)

    def send(
        self, key: bytes | None, value: bytes | None, *, partition: int | None = None
    ) -> Future[RecordMetadata]:
        self._process.check()
        sent: Future[Any] = _Waited(self._process)
        # Nobody can take back what the producer has: whoever gives up does not wait any longer.
        sent.set_running_or_notify_cancel()
        self._queue.append((key, value, sent))
        self._send_next()
        return sent

    def read_to_end(self, deadline: Deadline) -> None:
        engine, process = self._engine, self._process
        until = engine.now + deadline.remaining()
        flushed = engine.block(process, until, lambda: not self._queue and not self._sending)
        if not flushed:
            raise DeadlineExceeded(f"Writing to topic {self._topic.name} did not finish in time")
        answered: list[int] = []

        def ask() -> None:
            if process.cut:
                engine.at(process.until_connected_s(0.2), ask, process)
            else:
                answered.append(self._topic.end)

        engine.at(self._topic.latency_s(), ask, process)
        if not engine.block(
            process, until, lambda: bool(answered) and self.position >= answered[0]
        ):
            raise DeadlineExceeded(f"Reading topic {self._topic.name} did not finish in time")

    # The reading thread.

    def there_is_more(self) -> None:
        if not self._asked:
            self._asked = True
            self._engine.at(self._topic.latency_s(), self._take, self._process)

    def _take(self) -> None:
        if self._process.cut:
            self._engine.at(self._process.until_connected_s(0.2), self._take, self._process)
            return
        self._asked = False
        records, end = self._topic.records, self._topic.end
        while self._read < len(records):
            record = records[self._read]
            self._read += 1
            self._on_record(record)
            self.position = record.offset + 1
        self.position = end

    # The producer.

    def _send_next(self) -> None:
        if not self._sending and self._queue:
            self._sending, self._written = True, False
            self._engine.at(self._topic.latency_s(), self._arrive, self._process)

    def _arrive(self) -> None:
        topic, engine = self._topic, self._engine
        if self._process.cut:
            if self._insists:
                engine.at(self._process.until_connected_s(0.5), self._arrive, self._process)
            else:
                self._settle(BrokerUnavailable("no broker answers"))
            return
        key, value, _ = self._queue[0]
        _may_crash(topic, self._process)
        topic.append([(key, value)], by=self._process.name, again=self._written)
        self._written = True
        _may_crash(topic, self._process)
        if topic.faults.lost_ack and engine.random.random() < topic.faults.lost_ack:
            engine.note(f"{self._process.name}: the acknowledgement of {key!r} is lost")
            if self._insists:
                engine.at(_RETRY_S, self._arrive, self._process)
            else:
                lost = BrokerUnavailable("no answer")
                engine.at(_RETRY_S, lambda: self._settle(lost), self._process)
            return
        engine.at(topic.latency_s(), lambda: self._settle(None), self._process)

    def _settle(self, error: ConnectError | None) -> None:
        *_, sent = self._queue.popleft()
        self._sending = False
        if error is None:
            sent.set_result(None)
        else:
            sent.set_exception(error)
        self._send_next()


class SimLeaderProducer:
    """Stands for `TransactionalSender`, of one process."""

    def __init__(
        self,
        process: Process,
        topic: SimTopic,
        properties: Mapping[str, str],
        transactional_id: str,
    ) -> None:
        self._process = process
        self._topic = topic
        self._id = transactional_id
        self._epoch = -1

    def claim(self, deadline: Deadline) -> None:
        self._round_trip(deadline)
        self._epoch = self._topic.claims.get(self._id, -1) + 1
        self._topic.claims[self._id] = self._epoch

    def write(
        self, topic: str, records: Sequence[tuple[bytes, bytes | None]], deadline: Deadline
    ) -> None:
        self._round_trip(deadline)
        _may_crash(self._topic, self._process)
        if self._topic.claims[self._id] != self._epoch:
            raise BrokerError("There is a newer producer with the same id", _PRODUCER_FENCED)
        self._topic.append(list(records), by=self._process.name, marker=True)
        _may_crash(self._topic, self._process)
        engine, faults = self._topic.engine, self._topic.faults
        lost = bool(faults.lost_ack) and engine.random.random() < faults.lost_ack
        if lost:
            engine.note(f"{self._process.name}: the answer to a commit is lost")
            engine.block(self._process, engine.now + _RETRY_S, lambda: False)
            raise BrokerUnavailable("no answer to the commit of a transaction")
        self._round_trip(deadline)

    def close(self, deadline: Deadline) -> None:
        """Nothing is open."""

    def _round_trip(self, deadline: Deadline) -> None:
        engine, process = self._topic.engine, self._process
        until = engine.now + deadline.remaining()
        engine.block(process, engine.now + self._topic.latency_s(), lambda: False)
        if not engine.block(process, until, lambda: not process.cut):
            raise BrokerUnavailable("no broker answers")


def _may_crash(topic: SimTopic, process: Process) -> None:
    chance = topic.faults.crash_in_write
    if chance and topic.engine.random.random() < chance:
        topic.engine.note(f"{process.name}: CRASHES while it writes to {topic.name}")
        process.alive = False
        raise Crashed
