"""Stores of source offsets as key and value bytes: on a compacted topic or in memory.

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
from connect.futures import settle
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
"""The limit of reading stored offsets. A task that was killed while it wrote offsets in a
transaction blocks readers until the coordinator aborts the transaction: after
transaction.timeout.ms (60 s) and its next check (every 10 s).
"""


class OffsetStore(Protocol):
    """A durable map from key bytes to value bytes.

    Safe from any thread between `start` and `stop`, which its owner calls once each.
    """

    def start(self, deadline: Deadline) -> None:
        """Open the store and read everything in it."""

    def get(self, keys: Iterable[bytes], deadline: Deadline) -> dict[bytes, bytes]:
        """Return the newest values of these keys, including those other writers stored before this
        call.

        A key without a value is absent.
        """

    def set(self, values: Mapping[bytes, bytes | None]) -> Future[None]:
        """Store all values; None deletes. The future completes when all are durable.

        It fails if any may not be durable.
        """

    def partitions_of(self, connector: str) -> frozenset[bytes]:
        """Return the keys of a connector that have a value, as far as read by now."""

    def marks(self, keys: Iterable[bytes]) -> dict[bytes, int]:
        """Return a number for each known key that increases with every write or deletion of the
        key.

        The numbers are as far as read by now. A key deleted long ago may be absent, and a store
        without an order of writes returns nothing.
        """

    def stop(self, deadline: Deadline) -> None:
        """Finish pending writes, as far as the deadline allows, and close."""


class OffsetTable:
    """Offsets by key, and the keys of each connector. Has its own lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[bytes, bytes] = {}
        self._notes: dict[bytes, bytes] = {}
        self._marks: dict[bytes, int] = {}
        self._by_connector: dict[str, set[bytes]] = {}

    def put(
        self, key: bytes, value: bytes | None, note: bytes | None = None, mark: int | None = None
    ) -> None:
        """Set or delete a value. `mark` None increases the mark by one."""
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

    def connectors(self) -> list[str]:
        with self._lock:
            return sorted(name for name, keys in self._by_connector.items() if keys)


class OffsetLog(Protocol):
    """The part of a `TopicLog` that the store uses."""

    def start(self, deadline: Deadline) -> None:
        """Open the topic, and read it to its current end."""

    def send(self, key: bytes | None, value: bytes | None) -> Future[RecordMetadata]:
        """Append a record. The future completes when all in-sync replicas have it."""

    def read_to_end(self, deadline: Deadline) -> None:
        """Wait until all records that the log has at the time of the call were read."""

    def stop(self, deadline: Deadline) -> None:
        """Finish pending sends, as far as the deadline allows, and close everything."""


class KafkaOffsetStore:
    """Offsets on a compacted topic, with the same keys, values and partitions as Kafka Connect's.

    `client_properties` are Java client properties of the topic's cluster. They apply to the
    producer, and also to the consumer and the admin client unless these have properties of their
    own. A topic given by its name alone must exist.
    """

    def __init__(
        self,
        topic: TopicSpec | str,
        client_properties: Mapping[str, str],
        *,
        read_committed: bool = False,
        consumer_properties: Mapping[str, str] | None = None,
        admin_properties: Mapping[str, str] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        open_log: Callable[..., OffsetLog] = TopicLog,
    ) -> None:
        """Create the store. `open_log` creates the log in place of `TopicLog`, for simulations."""
        self._table = OffsetTable()
        self._log = open_log(
            topic if isinstance(topic, str) else topic.name,
            client_properties,
            self._take,
            create=None if isinstance(topic, str) else topic,
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
        """Return the `plugin.OFFSET_NOTE` header of these keys' newest records, as far as read by
        now.
        """
        return self._table.notes(keys)

    def set(self, values: Mapping[bytes, bytes | None]) -> Future[None]:
        return gathered(self._log.send, values)

    def partitions_of(self, connector: str) -> frozenset[bytes]:
        return self._table.partitions_of(connector)

    def connectors(self) -> list[str]:
        """Return the connectors that have offsets, as far as read by now."""
        return self._table.connectors()

    def marks(self, keys: Iterable[bytes]) -> dict[bytes, int]:
        """Return the log offset of the newest record of each key.

        After compaction a deleted key has none.
        """
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
    """Send all values. The future completes when all are sent, and fails with the first failure."""
    sends = _Gathered(len(values))
    for key, value in values.items():
        try:
            send(key, value).add_done_callback(lambda sent: sends.one_ended(sent.exception()))
        except ConnectError as error:
            sends.one_ended(error)
    return sends.future


class _Gathered:
    """A future for several sends: done when all are done, failed with the first failure."""

    def __init__(self, count: int) -> None:
        self.future: Future[None] = Future()
        self._lock = threading.Lock()
        self._left = count
        self._error: BaseException | None = None
        if count == 0:
            self.future.set_result(None)

    def one_ended(self, error: BaseException | None) -> None:
        with self._lock:
            self._left -= 1
            self._error = self._error or error
            finished = self._left == 0
        if finished:
            settle(self.future, self._error)
