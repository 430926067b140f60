"""The producer of a record task, which finds the record that makes a batch too large.

A broker refuses a whole batch that exceeds the topic's limit. Java's producer splits such a batch,
but librdkafka fails all of its records. With `errors.tolerance=all` good records would then be
skipped together with the large one. So each of them is sent once more in a batch of its own, after
records that were sent meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

from connect.clients.errors import broker_code
from connect.clients.librdkafka.record_sender import Delivered, RecordSender
from connect.clock import Deadline
from connect.errors import ConnectError
from connect.plugin import RecordMetadata
from connect.protocol.error_codes import ErrorCode

__all__ = ["OutgoingRecord", "SourceProducer"]

# Java's producers wait for a topic that does not exist yet as long as `max.block.ms`, which Connect
# sets to no end. librdkafka counts these in microseconds, in 32 bits: more than 35 min are none.
_PATIENT = {"topic.metadata.propagation.max.ms": 2_100_000}
_ONE_BY_ONE = {**_PATIENT, "batch.num.messages": 1}


class OutgoingRecord(NamedTuple):
    """A record to produce. `partition` None: decided by the key; `timestamp_ms` None: now."""

    topic: str
    partition: int | None
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class SourceProducer:
    """The producer. Closed once by its owner. `send` is for the task's thread."""

    def __init__(
        self,
        props: Mapping[str, str],
        *,
        tolerant: bool,
        overrides: Mapping[str, Any] | None = None,
    ) -> None:
        """Create the producer. `props` are Java's, `overrides` librdkafka's. `tolerant`: failed
        records are skipped.
        """
        self._props = props
        self._tolerant = tolerant
        self._sender = RecordSender(props, overrides={**_PATIENT, **(overrides or {})})
        self._lock = threading.Lock()
        self._alone: RecordSender | None = None
        self._closed = False

    def send(self, record: OutgoingRecord, delivered: Delivered) -> None:
        """Send a record as `RecordSender.send` does."""

        def judged(error: ConnectError | None, metadata: RecordMetadata | None) -> None:
            if (
                error is None
                or not self._tolerant
                or broker_code(error) != ErrorCode.MESSAGE_TOO_LARGE
            ):
                delivered(error, metadata)
            else:
                self._send_alone(record, error, delivered)

        _send(self._sender, record, judged)

    def close(self, deadline: Deadline) -> None:
        """Close the producer as `RecordSender.close` does."""
        self._sender.close(deadline)
        with self._lock:
            self._closed = True
        if self._alone is not None:
            self._alone.close(deadline)

    def _send_alone(
        self, record: OutgoingRecord, error: ConnectError, delivered: Delivered
    ) -> None:
        """Send a record again in a batch of its own. Runs on the sender's thread."""
        with self._lock:
            if self._alone is None and not self._closed:
                self._alone = RecordSender(self._props, overrides=_ONE_BY_ONE)
            sender = None if self._closed else self._alone
        if sender is None:
            delivered(error, None)
            return
        try:
            _send(sender, record, delivered)
        except ConnectError as refused:
            delivered(refused, None)


def _send(sender: RecordSender, record: OutgoingRecord, delivered: Delivered) -> None:
    sender.send(
        record.topic,
        record.key,
        record.value,
        delivered,
        partition=record.partition,
        timestamp_ms=record.timestamp_ms,
        headers=record.headers,
    )
