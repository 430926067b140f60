"""Source and sink records, as connectors and transformations handle them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
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
"""Identifies the source partition. **Key order matters**: the stored key is its JSON, byte for
byte.
"""
SourceOffset = Mapping[str, OffsetValue]
"""The position in the source partition. Key order matters here, too."""


class Header(NamedTuple):
    """One header. Its value may be any Connect data, with or without a schema."""

    name: str
    value: object
    schema: Schema | None = None


def as_header(header: Header | tuple[str, object]) -> Header:
    """Return a header in the type of a record's headers, whichever form the connector used."""
    return header if isinstance(header, Header) else Header(*header)


class ConnectRecord:
    """The common part of source and sink records. Immutable, including its parts."""

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
        """Return a copy with other values in these fields. Transformations make many copies, and
        `dataclasses.replace` takes three times as long."""
        copy, put = object.__new__(type(self)), object.__setattr__
        # mypy doubts that a class can be hashed.
        for name in _field_names(type(self)):  # type: ignore[arg-type]
            put(copy, name, changes[name] if name in changes else getattr(self, name))
        return copy


@cache
def _field_names(record_class: type[ConnectRecord]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(record_class))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class SourceRecord(ConnectRecord):
    """A record for the target. `partition` None: the producer chooses; `timestamp_ms` None: now.

    `key`, `value` and header values may be any Connect data that the task's converters accept, with
    a schema or without (bytes, as for mirroring; text; numbers; lists; dicts).
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
    """A record read from a topic. `timestamp_ms` None: it has none.

    Transformations may change its topic and partition. The three `original_` fields keep the topic,
    partition and offset it was read from, which offset commits use. The worker sets `origin`, the
    record before transformations, for error reports.
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
