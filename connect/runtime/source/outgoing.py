"""Makes the record to produce of a source record: transformations, then converters."""

from __future__ import annotations

from collections.abc import Mapping

from connect.data.converters.base import Converter
from connect.data.converters.byte_array import ByteArrayConverter
from connect.data.record import SourceRecord, as_header
from connect.data.schema import Schema, Type
from connect.data.transforms.chain import TransformChain
from connect.errors import ConnectError
from connect.runtime.error_handling.tolerance import RecordErrors, Stage
from connect.runtime.source.producer import OutgoingRecord
from connect.runtime.tasks.record_converters import RecordConverters

__all__ = ["OutgoingRecords"]

_BYTES = Type.BYTES
_SAME_BYTES = ByteArrayConverter.to_bytes


class OutgoingRecords:
    """The transformations and converters of one task, or of one of its topics. For its thread."""

    def __init__(
        self,
        transforms: TransformChain,
        converters: RecordConverters,
        errors: RecordErrors[SourceRecord],
        names: Mapping[str, str] | None = None,
    ) -> None:
        """`names`: the topics to which records go that have another topic after `transforms`."""
        self._transforms = transforms
        self._converters = converters
        self._errors = errors
        self._names = names or {}

    def of(
        self, record: SourceRecord, original: SourceRecord | None = None
    ) -> OutgoingRecord | None:
        """Return the record to produce, or None if a transformation dropped it. `original`: the
        record for error reports, if it is not `record`.

        Raises as `RecordErrors.run`.
        """
        original = original or record
        run, converters = self._errors.run, self._converters
        transformed: SourceRecord | None = record
        if self._transforms:
            transformed = self._errors.transform(original, self._transforms, record)
        if transformed is None:
            return None
        topic = self._names.get(transformed.topic, transformed.topic)
        headers: list[tuple[str, bytes | None]] = []
        if transformed.headers:
            headers = run(
                original,
                Stage.HEADER_CONVERTER,
                converters.header_class,
                self._headers,
                topic,
                transformed,
            )
        key = self._bytes(
            original,
            Stage.KEY_CONVERTER,
            converters.key_class,
            converters.key,
            topic,
            transformed.key,
            transformed.key_schema,
        )
        value = self._bytes(
            original,
            Stage.VALUE_CONVERTER,
            converters.value_class,
            converters.value,
            topic,
            transformed.value,
            transformed.value_schema,
        )
        timestamp_ms = None if transformed.timestamp_ms == -1 else transformed.timestamp_ms
        if timestamp_ms is not None and timestamp_ms < 0:
            raise ConnectError(
                f"A record for topic {topic} has the invalid timestamp {timestamp_ms}; use -1"
                f" (none) or milliseconds since 1970"
            )
        return OutgoingRecord(topic, transformed.partition, timestamp_ms, key, value, headers)

    def _bytes(
        self,
        original: SourceRecord,
        stage: Stage,
        name: str,
        converter: Converter,
        topic: str,
        data: object,
        schema: Schema | None,
    ) -> bytes | None:
        """Return a key or value as its converter writes it. Mirrored bytes, most of all records,
        skip the general conversion."""
        if (
            type(converter).to_bytes is _SAME_BYTES
            and isinstance(data, bytes)
            and (schema is None or schema.type is _BYTES)
        ):
            return data
        return self._errors.run(original, stage, name, converter.to_bytes, topic, data, schema)

    def _headers(self, topic: str, record: SourceRecord) -> list[tuple[str, bytes | None]]:
        to_bytes = self._converters.header.to_bytes
        return [
            (name, to_bytes(topic, value, schema))
            for name, value, schema in map(as_header, record.headers)
        ]
