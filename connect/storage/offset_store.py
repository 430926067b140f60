"""Stores for source offsets, as bytes to bytes: on a compacted topic or in memory.

`offset_codec` defines the bytes; connectors use `OffsetReader` and `OffsetWriter`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Protocol

from connect.clients.librdkafka.topic_log import LogRecord, TopicLog, TopicSpec
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConnectError
from connect.plugin import OFFSET_NOTE, RecordMetadata
from connect.storage.offset_codec import decode_key

__all__ = [
    "READ_S",
    "KafkaOffsetStore",
    "OffsetLog",
    "OffsetStore",
    "OffsetTable",
    "gathered",
]

_log = logging.getLogger(__name__)

READ_S = 90.0
"""How long reading what is stored may take. A task that was killed while it wrote its offsets in a
transaction holds that up until the coordinator aborts it: after transaction.timeout.ms (60 s), and
what passes until it looks (every 10 s)."""


class OffsetStore(Protocol):
    """A map from key bytes to value bytes that survives its readers. Safe from any thread between
    `start` and `stop`, which its owner calls once each."""

    def start(self, deadline: Deadline) -> None:
        """Open, and read everything that was stored."""

    def get(self, keys: Iterable[bytes], deadline: Deadline) -> dict[bytes, bytes]:
        """The newest stored values of these keys, also what other writers stored before this call.
        A key without a value is absent."""

    def set(self, values: Mapping[bytes, bytes | None]) -> Future[None]:
        """Store all; None deletes. Completes when everything is durable; with an error when
        anything may not be."""

    def partitions_of(self, connector: str) -> frozenset[bytes]:
        """The keys that have a value and belong to a connector, as far as read by now."""

    def marks(self, keys: Iterable[bytes]) -> dict[bytes, int]:
        """A number for each of these keys that anything is known of, which grows with every write
        of the key, deletions too; as far as read by now. Of what was deleted long ago nothing need
        be known, and a store that keeps no order knows of nothing."""

    def stop(self, deadline: Deadline) -> None:
        """Finish what was set, as far as the deadline allows, and close."""


class OffsetTable:
    """Offsets by key, and the keys of each connector. Guarded by its own lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[bytes, bytes] = {}
        self._notes: dict[bytes, bytes] = {}
        self._marks: dict[bytes, int] = {}
        self._by_connector: dict[str, set[bytes]] = {}

    def put(
        self, key: bytes, value: bytes | None, note: bytes | None = None, mark: int | None = None
    ) -> None:
        """`mark` None: one more than before."""
        decoded = decode_key(key)
        with self._lock:
            self._marks[key] = self._marks.get(key, 0) + 1 if mark is None else mark
            if value is None or note is None:
                self._notes.pop(key, None)
            else:
                self._notes[key] = note
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value
            if decoded is None:
                _log.debug("A key of the offset topic is not [connector, partition]: %r", key)
                return
            keys = self._by_connector.setdefault(decoded[0], set())
            if value is None:
                keys.discard(key)
            else:
                keys.add(key)

    def get(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        with self._lock:
            return {key: self._values[key] for key in keys if key in self._values}

    def notes(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        with self._lock:
            return {key: self._notes[key] for key in keys if key in self._notes}

    def marks(self, keys: Iterable[bytes]) -> dict[bytes, int]:
        with self._lock:
            return {key: self._marks[key] for key in keys if key in self._marks}

    def partitions_of(self, connector: str) -> frozenset[bytes]:
        with self._lock:
            return frozenset(self._by_connector.get(connector, ()))


class OffsetLog(Protocol):
    """The part of a `TopicLog` that is used here."""

    def start(self, deadline: Deadline) -> None:
        """Open the topic, and read it to its present end."""

    def send(self, key: bytes | None, value: bytes | None) -> Future[RecordMetadata]:
        """Append a record; the future completes when all in-sync replicas have it."""

    def read_to_end(self, deadline: Deadline) -> None:
        """Wait until everything that was in the log when called was read."""

    def stop(self, deadline: Deadline) -> None:
        """Finish what was sent, as far as the deadline allows, and close everything."""


class KafkaOffsetStore:
    """Offsets on a compacted topic, with the same keys, values and partitions as in Java's Connect.

    `client_properties` are Java client properties of the topic's cluster, for all three clients, or
    for the producer only, where others are given for the consumer and the admin client.
    """

    def __init__(
        self,
        topic: TopicSpec,
        client_properties: Mapping[str, str],
        *,
        read_committed: bool = False,
        consumer_properties: Mapping[str, str] | None = None,
        admin_properties: Mapping[str, str] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        open_log: Callable[..., OffsetLog] = TopicLog,
    ) -> None:
        """`open_log`: another log than Kafka's, made as a `TopicLog` is, for simulations."""
        self._table = OffsetTable()
        self._log = open_log(
            topic.name,
            client_properties,
            self._take,
            create=topic,
            read_committed=read_committed,
            consumer_properties=consumer_properties,
            admin_properties=admin_properties,
            clock=clock,
        )

    def start(self, deadline: Deadline) -> None:
        self._log.start(deadline)

    def get(self, keys: Iterable[bytes], deadline: Deadline) -> dict[bytes, bytes]:
        self._log.read_to_end(deadline)
        return self._table.get(keys)

    def notes(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """What is in the header `plugin.OFFSET_NOTE` of the newest records of these keys, as far as
        read by now."""
        return self._table.notes(keys)

    def set(self, values: Mapping[bytes, bytes | None]) -> Future[None]:
        return gathered(self._log.send, values)

    def partitions_of(self, connector: str) -> frozenset[bytes]:
        return self._table.partitions_of(connector)

    def marks(self, keys: Iterable[bytes]) -> dict[bytes, int]:
        """Where the newest records of these keys are. Compaction removes a deletion in the end,
        and its mark."""
        return self._table.marks(keys)

    def stop(self, deadline: Deadline) -> None:
        self._log.stop(deadline)

    def _take(self, record: LogRecord) -> None:
        if record.key is not None:
            note = next((value for name, value in record.headers if name == OFFSET_NOTE), None)
            self._table.put(record.key, record.value, note, record.offset)


def gathered(
    send: Callable[[bytes, bytes | None], Future[RecordMetadata]],
    values: Mapping[bytes, bytes | None],
) -> Future[None]:
    """Send all; the future is done when every one is, and fails with the first failure."""
    sends = _Gathered(len(values))
    for key, value in values.items():
        try:
            send(key, value).add_done_callback(sends.one_done)
        except ConnectError as error:
            sends.one_failed(error)
    return sends.future


class _Gathered:
    """One future for several sends: done when all are, failed with the first failure."""

    def __init__(self, count: int) -> None:
        self.future: Future[None] = Future()
        self._lock = threading.Lock()
        self._left = count
        self._error: BaseException | None = None
        if count == 0:
            self.future.set_result(None)

    def one_done(self, sent: Future[RecordMetadata]) -> None:
        self._count(sent.exception())

    def one_failed(self, error: BaseException) -> None:
        self._count(error)

    def _count(self, error: BaseException | None) -> None:
        with self._lock:
            self._left -= 1
            self._error = self._error or error
            finished = self._left == 0
        if not finished:
            return
        if self._error is not None:
            self.future.set_exception(self._error)
        else:
            self.future.set_result(None)
