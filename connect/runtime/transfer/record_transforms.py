"""Runs a connector's transformations for a transfer task (`plugin.RecordTransforms`).

A record is read as bytes, as Kafka's MirrorMaker 2 gives it to Connect, or with the converters that
the config names under the task's prefix. It then goes the way of every source record
(`source.outgoing`). It is written with the connector's own converters, otherwise with those that
read it; without any, only bytes can be written, and headers of other types are written as text. A
key, value or header that no transformation of a topic reads or changes stays as bytes, if the same
converter would read and write it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from connect.clock import Clock
from connect.data.converters.base import Converter, ConverterUse, HeaderConverter
from connect.data.converters.byte_array import ByteArrayConverter
from connect.data.converters.simple_header import SimpleHeaderConverter
from connect.data.record import Header, SourceRecord
from connect.data.schema import Schema, SchemaAndValue, Type
from connect.data.schema_builder import OPTIONAL, REQUIRED
from connect.data.transforms.chain import TransformChain
from connect.errors import DataError, Interrupted
from connect.plugin import RawRecord, RecordTransform
from connect.runtime.error_handling.metrics import ErrorMetrics
from connect.runtime.error_handling.tolerance import (
    RecordErrors,
    RecordSkipped,
    RetriesInterrupted,
    Stage,
)
from connect.runtime.plugins.transform_chain import make_chain
from connect.runtime.source.outgoing import OutgoingRecords
from connect.runtime.source.producer import OutgoingRecord
from connect.runtime.tasks.record_converters import NamedConverters, RecordConverters

if TYPE_CHECKING:
    from connect.runtime.plugins.registry import PluginRegistry

__all__ = [
    "ByteReader",
    "HeaderBytes",
    "WorkerRecordTransforms",
    "error_metrics",
    "make_record_transforms",
]


_KEY_SCHEMA, _VALUE_SCHEMA = OPTIONAL[Type.BYTES], REQUIRED[Type.BYTES]
"""The schemas of MirrorMaker 2's records, also for null values."""


_OWN_MODULES = f"{__name__.partition('.')[0]}."
"""The beginning of the names of modules with Kafka's own plugins."""


class ByteReader(ByteArrayConverter):
    """Reads bytes with the schemas of MirrorMaker 2: only keys and null headers are optional."""

    def __init__(self, schema: Schema = _VALUE_SCHEMA) -> None:
        self._schema = schema

    def from_bytes(self, topic: str, data: bytes | None) -> SchemaAndValue:
        return SchemaAndValue(self._schema, data)


class HeaderBytes(HeaderConverter):
    """Passes bytes, and writes headers of other types as text, as Connect does by default."""

    def __init__(self) -> None:
        self._text = SimpleHeaderConverter()

    def to_bytes(self, topic: str, value: object, schema: Schema | None = None) -> bytes | None:
        if value is None or isinstance(value, bytes):
            return value
        return self._text.to_bytes(topic, value, schema)

    def from_bytes(self, topic: str, data: bytes | None) -> SchemaAndValue:
        return SchemaAndValue(_KEY_SCHEMA if data is None else _VALUE_SCHEMA, data)


def _bytes_only() -> dict[ConverterUse, Converter]:
    return {"key": ByteReader(_KEY_SCHEMA), "value": ByteReader(), "header": HeaderBytes()}


class WorkerRecordTransforms:
    """The transformations of one task. Its owner closes it once; `stop` is for any thread."""

    def __init__(
        self,
        chain: TransformChain,
        readers: RecordConverters,
        writers: RecordConverters,
        errors: RecordErrors[SourceRecord],
    ) -> None:
        self._chain = chain
        self._readers = readers
        self._writers = writers
        self._errors = errors
        used: list[object] = [*chain.plugins]
        for converters in (readers, writers):
            used += (converters.key, converters.value, converters.header)
        self.may_wait = not all(type(each).__module__.startswith(_OWN_MODULES) for each in used)

    @property
    def metrics(self) -> ErrorMetrics:
        """The counts of failed, skipped and retried records."""
        return self._errors.metrics

    def of_topic(self, source: str, target: str) -> tuple[str, RecordTransform | None]:
        topic, chain, before_names = self._chain.route(target)
        if not chain:
            return topic, None
        readers, writers = self._converters(chain.parts)
        writes = OutgoingRecords(chain, writers, self._errors, {before_names: topic})
        return topic, _TopicTransform(source, target, topic, readers, writes, self._errors)

    def _converters(
        self, needed: frozenset[ConverterUse]
    ) -> tuple[RecordConverters, RecordConverters]:
        """Return the converters that read and those that write, without unneeded ones."""
        readers, writers = self._readers, self._writers
        plain: dict[str, Any] = {
            use: bytes_only
            for use, bytes_only in _bytes_only().items()
            if use not in needed and getattr(readers, use) is getattr(writers, use)
        }
        return replace(readers, **plain), replace(writers, **plain)

    def add_errors(self, counted: Mapping[str, float]) -> None:
        self._errors.metrics.add(counted)

    def stop(self) -> None:
        """End all retries. Called from any thread."""
        self._errors.stop()

    def close(self) -> None:
        self._chain.close()


def make_record_transforms(
    plugins: PluginRegistry,
    converters: NamedConverters,
    config: Mapping[str, str],
    prefix: str,
    errors: RecordErrors[SourceRecord],
) -> WorkerRecordTransforms:
    """Return the transformations of a connector's config. `prefix`: of the converters that read.
    Raises `ConfigError`."""
    chain = make_chain(plugins, config)
    chain.check_routes()
    readers: list[Converter] = []
    writers: list[Converter] = []
    for use, bytes_only in _bytes_only().items():
        reads = config.get(f"{prefix}{use}.converter")
        reader = converters.make(config, use, prefix) if reads else bytes_only
        readers.append(reader)
        writes = config.get(f"{use}.converter")
        writers.append(converters.make(config, use) if writes else reader)
    return WorkerRecordTransforms(
        chain, converters.together(readers), converters.together(writers), errors
    )


def error_metrics(transforms: WorkerRecordTransforms | None, clock: Clock) -> ErrorMetrics:
    """Return a task's error metrics. Without transformations they stay 0, but dashboards expect
    them."""
    return ErrorMetrics(clock) if transforms is None else transforms.metrics


class _TopicTransform:
    """The transformations of one topic. `begins`: the topic that the chain gets; `ends`: the one
    that all records must have after it."""

    def __init__(
        self,
        source: str,
        begins: str,
        ends: str,
        readers: RecordConverters,
        writes: OutgoingRecords,
        errors: RecordErrors[SourceRecord],
    ) -> None:
        self._source = source
        self._begins = begins
        self._ends = ends
        self._readers = readers
        self._writes = writes
        self._errors = errors
        reads = (readers.key, readers.value, readers.header)
        self._only_bytes = all(isinstance(each, ByteReader | HeaderBytes) for each in reads)

    def apply(self, partition: int, offset: int, record: RawRecord) -> RawRecord | None:
        original = SourceRecord.of(
            {"topic": self._source, "partition": partition},
            {"offset": offset},
            self._begins,
            partition,
            record.key,
            record.value,
            record.timestamp_ms,
            tuple(map(_as_bytes, record.headers)) if record.headers else (),
            _KEY_SCHEMA,
            _VALUE_SCHEMA,
        )
        try:
            read = original if self._only_bytes else self._read(original, record)
            made = self._writes.of(read, original)
            if made is None:
                return None
            if made.topic != self._ends or made.partition != partition:
                self._errors.run(
                    original, Stage.TRANSFORMATION, type(self).__name__, self._refuse, made
                )
        except RecordSkipped:
            return None
        except RetriesInterrupted as error:
            raise Interrupted(
                f"the task stops; {self._source}-{partition} continues at offset {offset}"
            ) from error
        timestamp_ms = -1 if made.timestamp_ms is None else made.timestamp_ms
        return RawRecord(timestamp_ms, made.key, made.value, tuple(made.headers))

    def _read(self, original: SourceRecord, record: RawRecord) -> SourceRecord:
        """Return the record with key, value and headers as the transformations get them."""
        readers, topic = self._readers, self._source
        key_schema, key = self._errors.run(
            original,
            Stage.KEY_CONVERTER,
            readers.key_class,
            readers.key.from_bytes,
            topic,
            record.key,
        )
        value_schema, value = self._errors.run(
            original,
            Stage.VALUE_CONVERTER,
            readers.value_class,
            readers.value.from_bytes,
            topic,
            record.value,
        )
        headers: tuple[Header, ...] = ()
        if record.headers:
            headers = self._errors.run(
                original,
                Stage.HEADER_CONVERTER,
                readers.header_class,
                _read_headers,
                readers.header,
                topic,
                record,
            )
        return SourceRecord.of(
            original.source_partition,
            original.source_offset,
            original.topic,
            original.partition,
            key,
            value,
            record.timestamp_ms,
            headers,
            key_schema,
            value_schema,
        )

    def _refuse(self, made: OutgoingRecord) -> None:
        raise DataError(
            f"the transformations gave the record topic {made.topic} and partition"
            f" {made.partition}, but records of {self._source} go to the same partition of"
            f" {self._ends}; a transformation that renames topics says so with topic_for"
        )


def _read_headers(converter: Converter, topic: str, record: RawRecord) -> tuple[Header, ...]:
    headers = []
    for name, data in record.headers:
        schema, value = converter.from_bytes(topic, data)
        headers.append(Header(name, value, schema))
    return tuple(headers)


def _as_bytes(header: tuple[str, bytes | None]) -> Header:
    name, value = header
    return Header(name, value, _KEY_SCHEMA if value is None else _VALUE_SCHEMA)
