"""Source and sink records, as connectors and transformations handle them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Self

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
        copy = self._open_copy()
        copy.topic = topic
        return self._closed(copy)

    def with_key(self, schema: Schema | None, key: object) -> Self:
        copy = self._open_copy()
        copy.key, copy.key_schema = key, schema
        return self._closed(copy)

    def with_value(self, schema: Schema | None, value: object) -> Self:
        copy = self._open_copy()
        copy.value, copy.value_schema = value, schema
        return self._closed(copy)

    def with_headers(self, headers: Sequence[Header | tuple[str, object]]) -> Self:
        copy = self._open_copy()
        copy.headers = headers
        return self._closed(copy)

    def _open_copy(self) -> Any:
        """Return a copy that can be changed. Transformations make many copies, and
        `dataclasses.replace` takes many times as long."""
        # mypy doubts that a class can be hashed.
        open_class, values_of = _open(type(self))  # type: ignore[arg-type]
        return open_class(*values_of(self))

    def _closed(self, copy: Any) -> Self:
        copy.__class__ = type(self)
        return copy  # type: ignore[no-any-return]

    @classmethod
    def of(cls, *values: object) -> Self:
        """Return a record with these values of all its fields, in order, in a fifth of the time
        that the constructor takes."""
        made = _open(cls)[0](*values)  # type: ignore[arg-type]
        made.__class__ = cls
        return made  # type: ignore[no-any-return]


@cache
def _open(record_class: type[ConnectRecord]) -> tuple[Any, Callable[[object], tuple[object, ...]]]:
    """Return a class with the same fields that can be changed, and a function that reads all of
    them.

    A frozen dataclass sets its fields through `object.__setattr__`, which takes most of the time
    of a transformation. An instance of the other class has the same layout and becomes a record.
    """
    names = [each.name for each in fields(record_class)]  # type: ignore[arg-type]
    made = make_dataclass("_Open", names, bases=(ConnectRecord,), slots=True, eq=False)
    return made, attrgetter(*names)


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
