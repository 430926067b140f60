"""A sink's dead letter queue (KIP-298): the topic, its records and their headers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import closing

from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.record_sender import RecordSender
from connect.clock import Deadline
from connect.config.connector import SINK_CONNECTOR_KEYS
from connect.config.definition import ConfigDef
from connect.config.secrets import without_secrets
from connect.errors import ConnectError, TaskFailed
from connect.futures import settle
from connect.loop import Backoff, retry
from connect.plugin import RecordMetadata, TopicPartition
from connect.runtime.error_handling.java_names import java_message, java_name, java_trace
from connect.runtime.error_handling.metrics import ErrorMetrics
from connect.runtime.error_handling.tolerance import ErrorReport, Stage
from connect.runtime.sink.consumed import ConsumedRecord

__all__ = [
    "ERROR_HEADER_PREFIX",
    "DeadLetterQueue",
    "context_headers",
    "create_dead_letter_topic",
    "dead_letter_topic",
    "describe_consumed",
]

_log = logging.getLogger(__name__)

ERROR_HEADER_PREFIX = "__connect.errors."
_TOPIC_KEY = "errors.deadletterqueue.topic.name"
_DLQ_CONFIG_DEF = ConfigDef(
    [key for key in SINK_CONNECTOR_KEYS if key.name.startswith("errors.deadletterqueue.")]
)
_PARTITIONS = 1
# How long the producer's queue may be full before the task fails.
_QUEUE_S = 60.0
_QUEUE_BACKOFF_S, _QUEUE_BACKOFF_CAP_S = 0.01, 1.0

Headers = Sequence[tuple[str, bytes | None]]


def describe_consumed(record: ConsumedRecord) -> str:
    """Return the record's position for `LogReporter`, without its content."""
    text = f"topic='{record.topic}', partition={record.partition}, offset={record.offset}"
    if record.timestamp_type is not None:
        text += f", timestamp={record.timestamp_ms}, timestampType={record.timestamp_type}"
    return f", where consumed record is {{{text}}}"


def context_headers(
    report: ErrorReport[ConsumedRecord], connector: str, task_index: int
) -> list[tuple[str, bytes | None]]:
    """Return the headers of `errors.deadletterqueue.context.headers.enable`.

    Names, order and bytes are Kafka Connect's, with Java class names where they exist. Known
    secrets, which a plugin's exception may quote, are hidden.
    """
    record, error = report.original, report.error
    values = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "connector.name": connector,
        "task.id": str(task_index),
        "stage": report.stage.value,
        "class.name": report.executing,
        "exception.class.name": java_name(error),
        "exception.message": java_message(error),
        "exception.stacktrace": java_trace(error),
    }
    return [
        (ERROR_HEADER_PREFIX + name, None if value is None else without_secrets(value).encode())
        for name, value in values.items()
    ]


def dead_letter_topic(config: Mapping[str, str]) -> str:
    """Return the name of a sink's dead letter queue, or an empty text."""
    return config.get(_TOPIC_KEY, "").strip()


def create_dead_letter_topic(config: Mapping[str, str], admin: Mapping[str, str]) -> None:
    """Create the topic if it is missing. `admin` are Java properties. Raises `ConnectError`."""
    parsed = _DLQ_CONFIG_DEF.parse(config)
    topic = dead_letter_topic(config)
    replicas = parsed.integer("errors.deadletterqueue.topic.replication.factor")
    try:
        with closing(Admin(admin)) as client:
            if topic not in client.list_topics() and client.create_topic(
                topic, _PARTITIONS, replicas
            ):
                _log.info("Created dead letter queue %s", topic)
    except ConnectError as error:
        raise TaskFailed(
            f"Could not initialize dead letter queue with topic={topic}: {error}; create the"
            f" topic, or set errors.deadletterqueue.topic.replication.factor to at most the"
            f" number of brokers"
        ) from error


class DeadLetterQueue:
    """Writes failed records unchanged to the topic. Thread-safe; closed by its owner.

    A record that could not be converted or transformed, and then cannot be written to the queue, is
    lost except for the log and a metric, as in Java. A record that the task reported fails the task
    then.
    """

    def __init__(
        self,
        config: Mapping[str, str],
        connector: str,
        task_index: int,
        producer: Mapping[str, str],
        metrics: ErrorMetrics,
    ) -> None:
        """Create the queue. `producer` are the Java properties of its producer."""
        parsed = _DLQ_CONFIG_DEF.parse(config)
        self._topic = dead_letter_topic(config)
        self._with_context = parsed.boolean("errors.deadletterqueue.context.headers.enable")
        self._connector, self._task_index = connector, task_index
        self._metrics = metrics
        self._sender = RecordSender(producer)
        self._lock = threading.Lock()
        self._unsettled: dict[TopicPartition, list[tuple[Stage, Future[None]]]] = {}

    def report(self, report: ErrorReport[ConsumedRecord]) -> Future[None]:
        """Write a failed record. The future completes when it is durable, or with the error."""
        self._metrics.count("deadletterqueue-produce-requests")
        record = report.original
        headers = list(record.headers)
        if self._with_context:
            headers += context_headers(report, self._connector, self._task_index)
        written: Future[None] = Future()

        def delivered(error: ConnectError | None, _: RecordMetadata | None) -> None:
            if error is not None:
                self._not_written(error)
            settle(written, error)

        self._send(record, headers, delivered)
        with self._lock:
            waiting = self._unsettled.setdefault((record.topic, record.partition), [])
            waiting[:] = [entry for entry in waiting if not _is_settled(*entry)]
            waiting.append((report.stage, written))
        return written

    def settle(self, partitions: Collection[TopicPartition], deadline: Deadline) -> bool:
        """Wait for the writes of all records reported for these partitions.

        Returns False if some are still pending. Raises `TaskFailed` if a record that the task
        reported could not be written.
        """
        with self._lock:
            taken = {p: self._unsettled.pop(p) for p in partitions if p in self._unsettled}
        wait([future for entries in taken.values() for _, future in entries], deadline.remaining())
        left = {p: [e for e in entries if not _is_settled(*e)] for p, entries in taken.items()}
        with self._lock:
            for partition, entries in left.items():
                if entries:
                    self._unsettled.setdefault(partition, []).extend(entries)
        for _, future in (entry for entries in left.values() for entry in entries):
            if future.done() and (error := future.exception()) is not None:
                raise TaskFailed(
                    f"Cannot write a record that the task reported to dead letter queue"
                    f" {self._topic}: {error}"
                ) from error
        return not any(left.values())

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Drop the records of revoked partitions, which their new owner will read again."""
        with self._lock:
            for partition in partitions:
                self._unsettled.pop(partition, None)

    def close(self, deadline: Deadline) -> None:
        """Wait for pending writes until the deadline, and close."""
        self._sender.close(deadline)

    def _send(
        self,
        record: ConsumedRecord,
        headers: Headers,
        delivered: Callable[[ConnectError | None, RecordMetadata | None], None],
    ) -> None:
        def send() -> None:
            self._sender.send(
                self._topic,
                record.key,
                record.value,
                delivered,
                timestamp_ms=record.timestamp_ms,
                headers=headers,
            )

        backoff = Backoff(_QUEUE_BACKOFF_S, _QUEUE_BACKOFF_CAP_S)
        try:
            retry(send, Deadline(_QUEUE_S), backoff)
        except ConnectError as error:
            if error.retriable:
                raise
            # Java's producer reports this later; an immediate error is handled in the same way.
            delivered(error, None)

    def _not_written(self, error: ConnectError) -> None:
        _log.error(
            "Could not produce message to dead letter queue. topic=%s: %s", self._topic, error
        )
        self._metrics.count("deadletterqueue-produce-failures")


def _is_settled(stage: Stage, written: Future[None]) -> bool:
    """Return whether the write of a record needs no more attention."""
    return written.done() and (stage is not Stage.TASK_PUT or written.exception() is None)
