"""A sink's dead letter queue (KIP-298): the topic, its records and their headers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait

from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.record_sender import RecordSender
from connect.clock import Deadline
from connect.config.connector import SINK_CONNECTOR_KEYS
from connect.config.definition import ConfigDef
from connect.errors import ConnectError, TaskFailed
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
# How long the producer's queue may stay full before that fails the task.
_QUEUE_S = 60.0
_QUEUE_BACKOFF_S, _QUEUE_BACKOFF_CAP_S = 0.01, 1.0

Headers = Sequence[tuple[str, bytes | None]]


def describe_consumed(record: ConsumedRecord) -> str:
    """For `LogReporter`: where the record is, not what is in it."""
    text = f"topic='{record.topic}', partition={record.partition}, offset={record.offset}"
    if record.timestamp_type is not None:
        text += f", timestamp={record.timestamp_ms}, timestampType={record.timestamp_type}"
    return f", where consumed record is {{{text}}}"


def context_headers(
    report: ErrorReport[ConsumedRecord], connector: str, task_index: int
) -> list[tuple[str, bytes | None]]:
    """What `errors.deadletterqueue.context.headers.enable` adds: Kafka Connect's names, order and
    bytes, of Java's classes where ours stand for them."""
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
        (ERROR_HEADER_PREFIX + name, None if value is None else value.encode())
        for name, value in values.items()
    ]


def dead_letter_topic(config: Mapping[str, str]) -> str:
    """The name of a sink's dead letter queue; empty where it has none."""
    return config.get(_TOPIC_KEY, "").strip()


def create_dead_letter_topic(config: Mapping[str, str], admin: Mapping[str, str]) -> None:
    """Create the topic where there is none; `admin`: Java properties. Raises `ConnectError`."""
    parsed = _DLQ_CONFIG_DEF.parse(config)
    topic = dead_letter_topic(config)
    replicas = parsed.integer("errors.deadletterqueue.topic.replication.factor")
    try:
        client = Admin(admin)
        try:
            if topic not in client.list_topics() and client.create_topic(
                topic, _PARTITIONS, replicas
            ):
                _log.info("Created dead letter queue %s", topic)
        finally:
            client.close()
    except ConnectError as error:
        raise TaskFailed(
            f"Could not initialize dead letter queue with topic={topic}: {error}; create the"
            f" topic, or set errors.deadletterqueue.topic.replication.factor to at most the"
            f" number of brokers"
        ) from error


class DeadLetterQueue:
    """Writes failed records as they were read. Safe to use from any thread; closed by its owner.

    A record that could not be converted or transformed and then does not get into the queue either
    is lost but for the log and the count, as in Java. One that the task itself reported fails it.
    """

    def __init__(
        self,
        config: Mapping[str, str],
        connector: str,
        task_index: int,
        producer: Mapping[str, str],
        metrics: ErrorMetrics,
    ) -> None:
        """`producer`: its Java properties."""
        parsed = _DLQ_CONFIG_DEF.parse(config)
        self._topic = dead_letter_topic(config)
        self._with_context = parsed.boolean("errors.deadletterqueue.context.headers.enable")
        self._connector, self._task_index = connector, task_index
        self._metrics = metrics
        self._sender = RecordSender(producer)
        self._lock = threading.Lock()
        self._unsettled: dict[TopicPartition, list[tuple[Stage, Future[None]]]] = {}

    def report(self, report: ErrorReport[ConsumedRecord]) -> Future[None]:
        """Done once the queue has it; with the error when it does not get there."""
        self._metrics.count("deadletterqueue-produce-requests")
        record = report.original
        headers = list(record.headers)
        if self._with_context:
            headers += context_headers(report, self._connector, self._task_index)
        written: Future[None] = Future()

        def delivered(error: ConnectError | None, _: RecordMetadata | None) -> None:
            if error is None:
                written.set_result(None)
            else:
                self._not_written(error)
                written.set_exception(error)

        self._send(record, headers, delivered)
        with self._lock:
            waiting = self._unsettled.setdefault((record.topic, record.partition), [])
            waiting[:] = [entry for entry in waiting if not _is_settled(*entry)]
            waiting.append((report.stage, written))
        return written

    def settle(self, partitions: Collection[TopicPartition], deadline: Deadline) -> bool:
        """Wait until all that was reported for these partitions is in the queue, or never will be.

        False: some of it is still on its way. Raises `TaskFailed` when the queue did not get a
        record that the task itself reported.
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
        """These partitions are somebody else's now, who will read their records again."""
        with self._lock:
            for partition in partitions:
                self._unsettled.pop(partition, None)

    def close(self, deadline: Deadline) -> None:
        """Waits for what is on its way as long as the deadline allows."""
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
            # Java's producer says it later: what it cannot take at once is not another matter.
            delivered(error, None)

    def _not_written(self, error: ConnectError) -> None:
        _log.error(
            "Could not produce message to dead letter queue. topic=%s: %s", self._topic, error
        )
        self._metrics.count("deadletterqueue-produce-failures")


def _is_settled(stage: Stage, written: Future[None]) -> bool:
    """Whether nobody has to look at it any more."""
    return written.done() and (stage is not Stage.TASK_PUT or written.exception() is None)
