"""Convert consumed records to sink records, and back for error reports."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import replace

from connect.data.record import Header, SinkRecord, as_header
from connect.data.transforms.chain import TransformChain
from connect.errors import TaskFailed
from connect.runtime.error_handling.tolerance import ErrorReport, RecordErrors, Stage
from connect.runtime.sink.consumed import ConsumedRecord
from connect.runtime.tasks.record_converters import RecordConverters

__all__ = ["SinkRecordReader", "WorkerErrantRecordReporter"]

_SINK_TASK = "org.apache.kafka.connect.sink.SinkTask"


class SinkRecordReader:
    """Converts and transforms records with the task's error handling. For the task's thread.

    Both methods raise as `RecordErrors.run`.
    """

    def __init__(
        self,
        converters: RecordConverters,
        transforms: TransformChain,
        errors: RecordErrors[ConsumedRecord],
        *,
        keep_origins: bool,
    ) -> None:
        """Create the reader. `keep_origins`: the task can report records."""
        self._converters = converters
        self._transforms = transforms
        self._errors = errors
        self._keep_origins = keep_origins

    def convert(self, read: ConsumedRecord) -> SinkRecord:
        run, converters, topic = self._errors.run, self._converters, read.topic
        to_key, to_value = converters.key.from_bytes, converters.value.from_bytes
        key = run(read, Stage.KEY_CONVERTER, converters.key_class, to_key, topic, read.key)
        value = run(
            read, Stage.VALUE_CONVERTER, converters.value_class, to_value, topic, read.value
        )
        headers = []
        if read.headers:
            headers = run(
                read, Stage.HEADER_CONVERTER, converters.header_class, self._headers, read
            )
        return SinkRecord(
            topic,
            read.partition,
            key.value,
            value.value,
            topic,
            read.partition,
            read.offset,
            read.timestamp_ms,
            headers,
            key.schema,
            value.schema,
            read if self._keep_origins else None,
        )

    def transform(self, read: ConsumedRecord, record: SinkRecord) -> SinkRecord | None:
        """Return the transformed record, or None if a transformation dropped it."""
        if not self._transforms:
            return record
        transformed = self._errors.transform(read, self._transforms, record)
        if transformed is not None and self._keep_origins and transformed.origin is not read:
            # A transformation that creates new records does not copy `origin`.
            return replace(transformed, origin=read)
        return transformed

    def close(self) -> None:
        self._transforms.close()

    def _headers(self, read: ConsumedRecord) -> list[Header]:
        converter = self._converters.header
        headers = []
        for name, data in read.headers:
            found = converter.from_bytes(read.topic, data)
            headers.append(Header(name, found.value, found.schema))
        return headers


class WorkerErrantRecordReporter:
    """The `plugin.ErrantRecordReporter` of one task. Thread-safe."""

    def __init__(self, errors: RecordErrors[ConsumedRecord], converters: RecordConverters) -> None:
        self._errors = errors
        self._converters = converters
        self._lock = threading.Lock()
        self._refused: TaskFailed | None = None

    def report(self, record: SinkRecord, error: Exception) -> Future[None]:
        origin = record.origin
        read = origin if isinstance(origin, ConsumedRecord) else self._as_consumed(record)
        try:
            return self._errors.failed(ErrorReport(read, Stage.TASK_PUT, _SINK_TASK, error))
        except TaskFailed as refused:
            with self._lock:
                self._refused = self._refused or refused
            raise

    def check(self) -> None:
        """Raise the error of a `report` call that the task caught and ignored."""
        with self._lock:
            if self._refused is not None:
                raise self._refused

    def _as_consumed(self, record: SinkRecord) -> ConsumedRecord:
        """Convert a record that the task created itself to bytes, with the task's converters."""
        topic, converters = record.topic, self._converters
        return ConsumedRecord(
            record.original_topic,
            record.original_partition,
            record.original_offset,
            converters.key.to_bytes(topic, record.key, record.key_schema),
            converters.value.to_bytes(topic, record.value, record.value_schema),
            [
                (name, converters.header.to_bytes(topic, value, schema))
                for name, value, schema in map(as_header, record.headers)
            ],
            record.timestamp_ms,
            None if record.timestamp_ms is None else "CreateTime",
        )
