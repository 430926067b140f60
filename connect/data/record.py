"""Records between connectors and topics: what transformations take and give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from connect.data.schema import Schema

__all__ = [
    "ConnectRecord",
    "Header",
    "OffsetValue",
    "SinkRecord",
    "SourceOffset",
    "SourcePartition",
    "SourceRecord",
    "as_header",
]

OffsetValue = str | int | float | bool | None
SourcePartition = Mapping[str, OffsetValue]
"""Identifies what was read. **Key order matters**: the stored key is its JSON, byte for byte."""
SourceOffset = Mapping[str, OffsetValue]
"""Where reading got to. The same rule of order applies."""


class Header(NamedTuple):
    """One header: any Connect data, with or without its schema."""

    name: str
    value: object
    schema: Schema | None = None


def as_header(header: Header | tuple[str, object]) -> Header:
    """A record's header, whichever way the connector gave it."""
    return header if isinstance(header, Header) else Header(*header)


class ConnectRecord:
    """What records of sources and of sinks have in common. Immutable, and so are its parts."""

    __slots__ = ()

    topic: str
    partition: int | None
    key: object
    value: object
    timestamp_ms: int | None
    headers: Sequence[Header | tuple[str, object]]
    key_schema: Schema | None
    value_schema: Schema | None

    def with_topic(self, topic: str) -> Self:
        return self._with(topic=topic)

    def with_key(self, schema: Schema | None, key: object) -> Self:
        return self._with(key=key, key_schema=schema)

    def with_value(self, schema: Schema | None, value: object) -> Self:
        return self._with(value=value, value_schema=schema)

    def with_headers(self, headers: Sequence[Header | tuple[str, object]]) -> Self:
        return self._with(headers=headers)

    def _with(self, **changes: object) -> Self:
        """A copy with other values in these fields."""
        return replace(self, **changes)  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class SourceRecord(ConnectRecord):
    """One record for the target. `partition` None: the producer chooses; `timestamp_ms` None: now.

    `key`, `value` and header values are what the converters of the task take: any Connect data
    with its schema, or without (bytes, as for mirroring; text; numbers; lists; dicts).
    """

    source_partition: SourcePartition
    source_offset: SourceOffset
    topic: str
    partition: int | None
    key: object
    value: object
    timestamp_ms: int | None = None
    headers: Sequence[Header | tuple[str, object]] = ()
    key_schema: Schema | None = None
    value_schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class SinkRecord(ConnectRecord):
    """One record that was read from a topic. `timestamp_ms` None: it has none.

    Transformations may give it another topic and partition; the three `original_` fields say where
    it was read, which is what offsets are about. `origin` is the worker's: what it read, should the
    task report the record.
    """

    topic: str
    partition: int | None
    key: object
    value: object
    original_topic: str
    original_partition: int
    original_offset: int
    timestamp_ms: int | None = None
    headers: Sequence[Header | tuple[str, object]] = ()
    key_schema: Schema | None = None
    value_schema: Schema | None = None
    origin: object = field(default=None, compare=False, repr=False)
