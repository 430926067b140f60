"""Read partitions of one topic from given offsets, without a consumer group.

librdkafka's consumer cannot do that: it looks up the coordinator of its `group.id` even if it only
assigns partitions, so its user would need a permission on a group that does not exist. Java's
consumer needs none, and neither does this reader.

One thread owns a `TopicReader` and polls it; only `wake` may be called from other threads.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Literal, NamedTuple

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.cluster.fetch_connection import FetchConnection
from connect.clients.cluster.list_offsets import OffsetResult
from connect.clients.config.properties import wire_settings
from connect.clients.errors import error_from_code
from connect.clients.wire.channel import BufferPool
from connect.clients.wire.selector_loop import SelectorLoop
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConnectError, CorruptData
from connect.protocol.aborted_transactions import AbortedTransactions
from connect.protocol.batches import CONTROL, BatchHeader, abort_marker, read_headers
from connect.protocol.error_codes import ErrorCode, code_facts
from connect.protocol.messages import (
    FetchedPartition,
    FetchPartition,
    FetchResponse,
    TopicPartition,
)
from connect.protocol.record_codec import iter_fields
from connect.protocol.records import verify_crc

__all__ = ["LogRecord", "PartitionRecords", "TopicReader"]

_LOG = logging.getLogger(__name__)

_TURN_S = 1.0
_PARTITION_BYTES = 1024 * 1024
_POOL_BYTES = 16 * 1024 * 1024
_RETRY_S = 0.1
_LOG_START = -2


class LogRecord(NamedTuple):
    """One record. `value` None is a tombstone."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


class PartitionRecords(NamedTuple):
    """Records of one partition, in order, and the next offset to read.

    `records` is empty if only transaction markers or aborted records were read.
    """

    partition: int
    records: list[LogRecord]
    position: int


class TopicReader:
    """A reader of one topic. Call `poll` repeatedly, then `close`.

    If retention has deleted the next offset, reading continues at the first offset left.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        topic: str,
        positions: Mapping[int, int],
        *,
        read_committed: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Set the reader up.

        `properties` are Java consumer properties, `positions` the first offset by partition. Raises
        `ConfigError`.
        """
        settings = wire_settings(properties)
        self._topic = topic
        self._positions = dict(positions)
        self._given = dict(positions)
        self._isolation: Literal[0, 1] = 1 if read_committed else 0
        self._clock = clock
        self._settings = settings
        self._loop = SelectorLoop(clock)
        self._pool = BufferPool(_POOL_BYTES)
        self._connections: dict[int, FetchConnection] = {}
        self._places: dict[int, FetchConnection] = {}
        self._answered: set[int] = set()
        self._ends: dict[int, int] = {}
        self._found: list[PartitionRecords] = []
        self._failure: ConnectError | None = None
        self._trouble: str | None = None
        self._woken = False
        self._link = ClusterLink(
            settings, self._note_change, clock, f"{settings.client_id or topic}", (topic,)
        )

    @property
    def well(self) -> bool:
        """Whether the brokers currently serve every partition."""
        return len(self._answered) == len(self._positions)

    @property
    def trouble(self) -> str | None:
        """Why some partition cannot be read now, if the error is retriable; None if all can."""
        return self._trouble

    def position(self, partition: int) -> int:
        """Return the position: `poll` has returned, or `seek` has skipped, all offsets before
        it.
        """
        return self._given[partition]

    def end(self, partition: int) -> int | None:
        """Return the partition's last known end offset for its isolation level, or None if
        unknown.
        """
        return self._ends.get(partition)

    def poll(self, timeout_s: float) -> list[PartitionRecords]:
        """Wait for records, at most `timeout_s`.

        Raises fatal errors such as TOPIC_AUTHORIZATION_FAILED; then the reader must be closed.
        """
        deadline = Deadline(timeout_s, self._clock)
        while not self._found and self._failure is None and not self._woken:
            self._loop.turn(min(_TURN_S, deadline.remaining()))
            for connection in self._connections.values():
                connection.check_deadline(self._loop.now())
            if deadline.expired():
                break
        self._woken = False
        if self._failure is not None:
            raise self._failure
        found, self._found = self._found, []
        for partition, _, position in found:
            self._given[partition] = position
        return found

    def seek(self, partition: int, offset: int) -> None:
        """Continue reading this partition from this offset."""
        self._positions[partition] = self._given[partition] = offset
        self._found = [each for each in self._found if each.partition != partition]
        place = self._places.get(partition)
        if place is not None:
            self._want(place, partition)
            place.pump()

    def wake(self) -> None:
        """Make a waiting `poll` return. May be called from any thread."""
        self._loop.post(self._note_wake)

    def close(self) -> None:
        """Close all connections. May be called again."""
        for connection in self._connections.values():
            connection.close()
        self._link.close()
        self._loop.close()

    def _note_wake(self) -> None:
        self._woken = True

    def _note_change(self) -> None:
        """Note a metadata change. Runs on the link's thread."""
        self._loop.post(self._place)

    def _place(self) -> None:
        """Assign each partition to a connection to its current leader."""
        failure, snapshot = self._link.failure, self._link.snapshot
        if failure is not None and not self.well:
            self._note_trouble(failure)
        code = snapshot.errors.get(self._topic)
        if code:
            self._note_trouble(self._error(code))
        for partition, position in self._positions.items():
            leader = snapshot.leaders.get((self._topic, partition))
            before = self._places.get(partition)
            if leader is None:
                continue
            node_id, epoch = leader
            place = self._connection(node_id)
            if before is not None and before is not place:
                before.session.drop((self._topic, partition))
            self._places[partition] = place
            place.session.want(
                (self._topic, partition), FetchPartition(position, epoch, _PARTITION_BYTES)
            )
        for connection in self._connections.values():
            connection.pump()

    def _connection(self, node_id: int) -> FetchConnection:
        connection = self._connections.get(node_id)
        if connection is None:
            connection = FetchConnection(
                node_id,
                self._link,
                self._settings,
                self._loop,
                self._pool,
                self._isolation,
                self._take_answer,
                self._note_lost,
            )
            self._connections[node_id] = connection
        return connection

    def _want(self, place: FetchConnection, partition: int) -> None:
        key = (self._topic, partition)
        leader = self._link.snapshot.leaders.get(key)
        epoch = -1 if leader is None else leader[1]
        place.session.want(key, FetchPartition(self._positions[partition], epoch, _PARTITION_BYTES))

    def _take_answer(self, connection: FetchConnection, fetched: FetchResponse) -> None:
        taken: list[tuple[FetchedPartition, list[BatchHeader], int]] = []
        for answer in fetched.partitions:
            number = answer.partition
            asked = connection.session.requested_offset((self._topic, number))
            if self._places.get(number) is not connection or asked != self._positions[number]:
                continue  # The partition has moved to another leader, or `seek` was called.
            if answer.error:
                self._take_error(connection, number, answer.error)
                continue
            self._answered.add(number)
            self._ends[number] = (
                answer.last_stable_offset if self._isolation else answer.high_watermark
            )
            try:
                headers = read_headers(answer.records)
            except ConnectError as error:
                self._fail(error)
                return
            if headers:
                taken.append((answer, headers, asked))
                self._positions[number] = headers[-1].next_offset
                self._want(connection, number)
        if self._trouble is not None and self.well:
            _LOG.info("Reading topic %s works again", self._topic)
            self._trouble = None
        connection.pump()  # The broker prepares the next response while these records are decoded.
        try:
            for answer, headers, asked in taken:
                records = _records(answer, headers, asked)
                position = headers[-1].next_offset
                self._found.append(PartitionRecords(answer.partition, records, position))
        except ConnectError as error:
            self._fail(error)

    def _take_error(self, connection: FetchConnection, partition: int, code: int) -> None:
        self._answered.discard(partition)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            connection.session.drop((self._topic, partition))
            self._places.pop(partition, None)
            self._ask_log_start(partition)
            return
        self._note_trouble(self._error(code))
        if code_facts(code).stale_metadata:
            self._link.request_refresh()
        connection.pause(_RETRY_S)

    def _ask_log_start(self, partition: int) -> None:
        key = (self._topic, partition)

        def answered(done: Future[Mapping[TopicPartition, OffsetResult]]) -> None:
            self._loop.post(lambda: self._take_log_start(partition, done))

        self._link.list_offsets([key], _LOG_START).add_done_callback(answered)

    def _take_log_start(
        self, partition: int, done: Future[Mapping[TopicPartition, OffsetResult]]
    ) -> None:
        if done.cancelled():
            return
        try:
            found = done.result(timeout=0)[self._topic, partition]
        except ConnectError as error:
            found = error
        if isinstance(found, ConnectError):
            self._note_trouble(found)
            self._loop.after(_RETRY_S, self._place)
            return
        _LOG.warning(
            "%s-%d: offset %d is no longer in the log; continuing at offset %d",
            self._topic,
            partition,
            self._positions[partition],
            found,
        )
        self._positions[partition] = found
        self._found.append(PartitionRecords(partition, [], found))
        self._place()

    def _note_lost(self, connection: FetchConnection, error: ConnectError) -> None:
        for partition, place in self._places.items():
            if place is connection:
                self._answered.discard(partition)
        self._note_trouble(error)

    def _error(self, code: int) -> ConnectError:
        what, needs = f"Reading topic {self._topic}", f"Read on topic {self._topic}"
        return error_from_code(code, what, needs=needs)

    def _note_trouble(self, error: ConnectError) -> None:
        if not error.retriable:
            self._fail(error)
            return
        if self._trouble is None:
            _LOG.warning("Reading topic %s: %s; trying again", self._topic, error)
        self._trouble = str(error)

    def _fail(self, error: ConnectError) -> None:
        if self._failure is None:
            self._failure = error


def _records(answer: FetchedPartition, headers: list[BatchHeader], start: int) -> list[LogRecord]:
    """Return the records from offset `start` on, without those of aborted transactions.

    Raises `CorruptData`.
    """
    transactions = AbortedTransactions(answer.aborted)
    found: list[LogRecord] = []
    for header in headers:
        batch = answer.records[header.start : header.start + header.size]
        if header.attributes & CONTROL:
            if answer.aborted and abort_marker(batch):
                transactions.ended(header)
            continue
        if answer.aborted and transactions.aborts(header):
            continue
        if not verify_crc(batch):
            raise CorruptData(
                f"{answer.topic}-{answer.partition}: the checksum of the batch at offset"
                f" {header.base_offset} does not match"
            )
        found.extend(
            LogRecord(answer.partition, offset, key, value, timestamp, record_headers)
            for offset, timestamp, key, value, record_headers in iter_fields(
                batch, from_offset=start
            )
        )
    return found
