"""Produces an archive's records to a target, as record batches of an idempotent producer.

Batches are encoded here, because client libraries replace some timestamps: librdkafka takes 0 for
now. One batch of a partition is in flight at a time and is repeated until the broker has answered,
so order is kept and nothing is written twice. Runs on executors. For one thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as FutureTimeout
from typing import NamedTuple

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.config.properties import produce_settings, wire_settings
from connect.clients.errors import error_from_code
from connect.clients.wire.connection import WireConnection
from connect.clock import Deadline
from connect.errors import BrokerUnavailable, ConnectError, CorruptData
from connect.loop import backoff_s
from connect.protocol.batches import stamp_for_produce
from connect.protocol.compression import Data
from connect.protocol.error_codes import ErrorCode, code_facts
from connect.protocol.messages import (
    PRODUCE_API,
    PRODUCE_VERSION,
    ProducedPartition,
    TopicPartition,
    encode_produce,
    encode_request_header,
    parse_produce,
)
from connect.protocol.record_columns import encode_columns
from connectors.mirror.copy.partition.produce_errors import surely_refused

__all__ = ["ArchiveSender", "BatchRefused", "OutcomeUnknown"]

_LOG = logging.getLogger(__name__)

_CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_REQUEST_MS = 30_000
_ID_S = 60.0
_RETRY_FIRST_S, _RETRY_CAP_S = 0.1, 1.0


class BatchRefused(ConnectError):
    """The target has none of the records of a batch. `too_large`: because of its size."""

    def __init__(self, message: str, *, too_large: bool) -> None:
        super().__init__(message)
        self.too_large = too_large


class OutcomeUnknown(ConnectError):
    """The target may have the records of a batch, or not."""


class _Producer(NamedTuple):
    id: int
    epoch: int


class ArchiveSender:
    """A producer. The owner calls `close`. After any error but `BatchRefused`, nothing more may be
    sent to the partition."""

    def __init__(
        self,
        producer: Mapping[str, str],
        topics: set[str],
        deadline: Deadline,
    ) -> None:
        """`producer`: Java properties. Nothing is sent after the deadline."""
        settings = wire_settings(producer)
        compression = produce_settings(producer).compression
        self._codec = 0 if compression is None else _CODECS[compression.codec]
        self._level = None if compression is None else compression.level
        self._deadline = deadline
        self._pause = threading.Event()
        self._link = ClusterLink(settings, lambda: None, name="restore", topics=topics)
        self._connections: dict[int, WireConnection] = {}
        self._producer: _Producer | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._correlation = 0

    @property
    def link(self) -> ClusterLink:
        """Return the link to the target, so that others on this thread can use its metadata."""
        return self._link

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._link.close()

    def send(self, key: TopicPartition, stamps: list[int], tails: list[Data]) -> int:
        """Append these records to a partition; return the offset of the first one.

        Raises `BatchRefused` if the target has none of them, and other errors of `connect.errors`
        if that is not known.
        """
        if self._producer is None:
            self._producer = _Producer(*self._link.init_producer_id().result(_ID_S))
        sequence = self._sequences.get(key, 0)
        batch = encode_columns(stamps, tails, codec=self._codec, level=self._level)
        stamp_for_produce(memoryview(batch), *self._producer, sequence)
        found = self._until_answered(key, batch)
        if found.error:
            what = f"Restoring {len(tails)} records to {key[0]}-{key[1]}"
            error = error_from_code(found.error, what, needs=f"Write on topic {key[0]}")
            told = f"{error} ({found.message})" if found.message else str(error)
            if surely_refused(found.error):
                raise BatchRefused(told, too_large=found.error in _TOO_LARGE)
            raise OutcomeUnknown(told)
        if found.base_offset < 0:
            raise OutcomeUnknown(f"{key[0]}-{key[1]}: the target returned no offset for a batch")
        self._sequences[key] = sequence + len(tails)
        return found.base_offset

    def _until_answered(self, key: TopicPartition, batch: bytearray) -> ProducedPartition:
        """Send the batch until its outcome is known."""
        tries, sent, reason = 0, False, "no answer yet"
        while not self._deadline.expired():
            node: int | None = None
            try:
                node, connection = self._leader(key)
                sent = True
                found = self._ask(connection, key, batch)
            except ConnectError as error:
                if not error.retriable and not sent:
                    raise BatchRefused(str(error), too_large=False) from error
                reason = str(error)
                self._drop(node)
            else:
                facts = code_facts(found.error)
                if found.error == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                    return found._replace(error=0)
                if not (facts.retriable or facts.stale_metadata):
                    return found
                reason = f"the broker answered {facts.name}"
            _LOG.debug("%s-%d: %s; sending the batch again", *key, reason)
            self._link.request_refresh((key[0],))
            pause = backoff_s(_RETRY_FIRST_S, _RETRY_CAP_S, tries)
            self._pause.wait(min(pause, self._deadline.remaining()))
            tries += 1
        told = f"{key[0]}-{key[1]}: a batch was not acknowledged in time: {reason}"
        raise OutcomeUnknown(told) if sent else BatchRefused(told, too_large=False)

    def _leader(self, key: TopicPartition) -> tuple[int, WireConnection]:
        leader = self._link.snapshot.leaders.get(key)
        if leader is None:
            raise BrokerUnavailable(f"{key[0]}-{key[1]} has no known leader")
        node = leader[0]
        connection = self._connections.get(node)
        if connection is None:
            opening = self._link.connect(node)
            try:
                connection = opening.result(self._deadline.remaining())
            except (FutureTimeout, CancelledError) as error:
                raise BrokerUnavailable(f"node {node} did not answer in time") from error
            self._connections[node] = connection
        return node, connection

    def _drop(self, node: int | None) -> None:
        connection = None if node is None else self._connections.pop(node, None)
        if connection is not None:
            connection.close()

    def _ask(
        self, connection: WireConnection, key: TopicPartition, batch: bytearray
    ) -> ProducedPartition:
        buffers, size = encode_produce({key: batch}, _REQUEST_MS)
        self._correlation = (self._correlation + 1) & 0x7FFF_FFFF
        head = encode_request_header(
            PRODUCE_API, PRODUCE_VERSION, self._correlation, connection.client_id.encode(), size
        )
        what = f"Produce to {connection}"
        frame = b"".join((head, *buffers))
        connection.send_raw(frame, self._correlation, self._deadline, what)
        answers, _ = parse_produce(connection.receive_raw(self._deadline, what))
        if len(answers) != 1 or (answers[0].topic, answers[0].partition) != key:
            raise CorruptData(f"{connection} answered for another partition than {key}")
        return answers[0]
