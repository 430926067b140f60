"""A record as a sink task's consumer read it, before conversion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import confluent_kafka

__all__ = ["ConsumedRecord"]

_TIMESTAMP_TYPES = {
    confluent_kafka.TIMESTAMP_CREATE_TIME: "CreateTime",
    confluent_kafka.TIMESTAMP_LOG_APPEND_TIME: "LogAppendTime",
}


@dataclass(frozen=True, slots=True)
class ConsumedRecord:
    """A consumed record as bytes. `timestamp_type` is Java's name; None: it has no timestamp."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int | None = None
    timestamp_type: str | None = None

    @classmethod
    def of(cls, message: confluent_kafka.Message) -> ConsumedRecord:
        """Convert a consumed message; the caller has checked that it holds no error."""
        kind, timestamp_ms = message.timestamp()
        timestamp_type = _TIMESTAMP_TYPES.get(kind)
        headers = message.headers()
        return cls(
            message.topic() or "",
            message.partition() or 0,
            message.offset() or 0,
            _bytes(message.key()),
            _bytes(message.value()),
            [(str(name), _bytes(data)) for name, data in list(headers)] if headers else (),
            None if timestamp_type is None else timestamp_ms,
            timestamp_type,
        )

    @property
    def place(self) -> str:
        """The record's topic, partition and offset, for log lines and errors."""
        return f"offset {self.offset} of {self.topic}-{self.partition}"


def _bytes(data: object) -> bytes | None:
    if data is None or isinstance(data, bytes):
        return data
    raise TypeError(f"expected bytes from the client, got {type(data).__name__}")
