"""The error handling of one sink task: its rules, its log and its dead letter queue."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.plugin import TopicPartition
from connect.runtime.error_handling.metrics import ErrorMetrics
from connect.runtime.error_handling.reporters import LogReporter
from connect.runtime.error_handling.tolerance import ErrorHandling, ErrorReporter, RecordErrors
from connect.runtime.plugins.connector_clients import ClientProperties
from connect.runtime.sink.consumed import ConsumedRecord
from connect.runtime.sink.dead_letter_queue import (
    DeadLetterQueue,
    create_dead_letter_topic,
    dead_letter_topic,
    describe_consumed,
)
from connect.runtime.sink.records import WorkerErrantRecordReporter
from connect.runtime.tasks.record_converters import RecordConverters

__all__ = ["SinkErrors"]


class SinkErrors:
    """A sink task's error handling, for its thread. `errors` and `reporter` define their own
    threads.
    """

    def __init__(
        self,
        connector: str,
        task_index: int,
        config: Mapping[str, str],
        converters: RecordConverters,
        clients: ClientProperties,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Create the error handling of a connector's config; only a dead letter queue needs
        `clients`. Raises `ConfigError`.
        """
        self._connector, self._task_index = connector, task_index
        self._config = config
        self._producer: Mapping[str, str] = {}
        self._admin: Mapping[str, str] = {}
        if dead_letter_topic(config):
            task = f"{connector}-{task_index}"
            self._producer = clients.producer(f"connector-dlq-producer-{task}")
            self._admin = clients.admin(f"connector-dlq-adminclient-{task}")
        self._handling = ErrorHandling.from_config(config)
        self._queue: DeadLetterQueue | None = None
        self.metrics = ErrorMetrics(clock)
        self.errors: RecordErrors[ConsumedRecord] = RecordErrors(
            self._handling, self.metrics, lambda read: read.place, clock=clock
        )
        self.reporter: WorkerErrantRecordReporter | None = None
        """The task's reporter; None if neither log nor queue is configured."""
        if self._handling.log or dead_letter_topic(config):
            self.reporter = WorkerErrantRecordReporter(self.errors, converters)

    def start(self) -> None:
        """Create the dead letter queue if one is configured and missing. Raises `ConnectError`."""
        reporters: list[ErrorReporter[ConsumedRecord]] = []
        if self._handling.log:
            describe = describe_consumed if self._handling.log_records else None
            task = f"{self._connector}-{self._task_index}"
            reporters.append(LogReporter(task, self.metrics, describe))
        if dead_letter_topic(self._config):
            create_dead_letter_topic(self._config, self._admin)
            self._queue = DeadLetterQueue(
                self._config, self._connector, self._task_index, self._producer, self.metrics
            )
            reporters.append(self._queue)
        self.errors.report_to(reporters)

    def check(self) -> None:
        """Raise `TaskFailed` if the reporter failed the task and the task ignored it."""
        if self.reporter is not None:
            self.reporter.check()

    def settle(self, partitions: Collection[TopicPartition], deadline: Deadline) -> bool:
        """Wait as `DeadLetterQueue.settle` does."""
        return self._queue is None or self._queue.settle(partitions, deadline)

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Drop records as `DeadLetterQueue.forget` does."""
        if self._queue is not None:
            self._queue.forget(partitions)

    def close(self, deadline: Deadline) -> None:
        if self._queue is not None:
            self._queue.close(deadline)
