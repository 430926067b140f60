"""Runs a `plugin.SinkTask`: read, convert, transform, put, and commit what the task took.

Everything happens on the task's thread, rebalances too: they are served while it polls. Only
`stopping` and `wake` come from elsewhere.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future

import confluent_kafka

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.data.record import Header, SinkRecord
from connect.data.transforms.chain import TransformChain
from connect.errors import ConnectError, TaskFailed
from connect.loop import is_retriable
from connect.plugin import SinkTask, TopicPartition
from connect.runtime.sink_consumer import SinkConsumer
from connect.runtime.sink_context import WorkerSinkTaskContext
from connect.runtime.source_task import RecordConverters
from connect.runtime.task import WorkerTask

__all__ = ["WorkerSinkTask"]

_log = logging.getLogger(__name__)

# A poll cannot be woken from outside: this is how late a stop or a pause may be noticed.
_POLL_S = 0.2
_RETRY_S = 1.0
_NO_TIMESTAMP = confluent_kafka.TIMESTAMP_NOT_AVAILABLE
_METRICS_GROUP = "sink-task-metrics"


class WorkerSinkTask(WorkerTask):
    """One sink task, its consumer and its commits."""

    def __init__(
        self,
        task: SinkTask,
        context: WorkerSinkTaskContext,
        config: Mapping[str, str],
        consumer: Mapping[str, str],
        converters: RecordConverters,
        transforms: TransformChain,
        topic_used: Callable[[str], None],
        *,
        commit_interval_s: float,
        commit_timeout_s: float,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`consumer`: its Java properties."""
        self._name = f"{context.connector_name}-{context.task_index}"
        self._task = task
        self._context = context
        self._offsets = context.offsets
        self._config = config
        self._properties = consumer
        self._converters = converters
        self._transforms = transforms
        self._topic_used = topic_used
        self._topics: set[str] = set()
        self._interval_s, self._timeout_s = commit_interval_s, commit_timeout_s
        self._clock = clock
        self._consumer: SinkConsumer | None = None
        self._batch: list[SinkRecord] = []
        self._positions: dict[TopicPartition, int] = {}
        self._retry_at: float | None = None
        self._paused = self._closing = False
        self._halted: set[TopicPartition] = set()
        self._rebalance_error: Exception | None = None
        self._commit_due = clock.monotonic() + commit_interval_s
        self._committing_since: float | None = None
        self._waiting: list[Future[None]] = []
        self._answering: list[Future[None]] = []
        self._woken = threading.Event()
        self._read = self._sent = 0
        self._remove_metrics: Callable[[], None] | None = None

    def start(self) -> None:
        self._remove_metrics = self._context.metrics.register(
            _METRICS_GROUP,
            {
                "connector": self._context.connector_name,
                "task": str(self._context.task_index),
            },
            self._read_metrics,
        )
        self._consumer = SinkConsumer(
            self._properties,
            self._config,
            self._clock,
            on_assign=self._assigned,
            on_revoke=lambda partitions: self._revoked(partitions, commit=True),
            on_lost=lambda partitions: self._revoked(partitions, commit=False),
            on_commit=self._committed,
        )
        self._task.initialize(self._context)
        self._task.start(self._config)

    def turn(self) -> None:
        messages = self._need_consumer().poll(0.0 if self._woken.is_set() else _POLL_S)
        self._woken.clear()
        if self._rebalance_error is not None:
            raise self._rebalance_error
        self._take(messages)
        self._apply_pauses()
        if self._batch_due():
            self._put()
        self._apply_requests()
        self._commit_if_due()

    def pause(self) -> None:
        self._paused = True
        self._apply_pauses()

    def resume(self) -> None:
        self._paused = False
        self._apply_pauses()

    def commit_soon(self) -> Future[None]:
        done: Future[None] = Future()
        self._waiting.append(done)
        return done

    def finish(self, deadline: Deadline, *, failed: bool) -> bool:
        """As Java also after a failure: what was put before it is worth committing."""
        self._closing = True
        return self._leave(self._offsets.assigned, commit=True)

    def close(self) -> None:
        self._closing = True
        for waiting in (*self._waiting, *self._answering):
            waiting.set_exception(ConnectError(f"Task {self._name} has ended"))
        self._waiting, self._answering = [], []
        if self._remove_metrics is not None:
            self._remove_metrics()
        try:
            self._task.stop()
        finally:
            self._transforms.close()
            if self._consumer is not None:
                self._consumer.close()

    def wake(self) -> None:
        self._woken.set()

    def stopping(self) -> None:
        self.wake()
        self._task.stopping()

    def _need_consumer(self) -> SinkConsumer:
        assert self._consumer is not None
        return self._consumer

    def _take(self, messages: Sequence[confluent_kafka.Message]) -> None:
        """Convert and transform; dropped records count as taken once the others are."""
        for message in messages:
            where = (message.topic() or "", message.partition() or 0)
            if where not in self._offsets.assigned:
                continue
            record = self._record(message, *where)
            self._offsets.arrived(where, record.original_offset)
            self._note_topic(record.topic)
            self._read += 1
            transformed = self._transforms.apply(record) if self._transforms else record
            self._positions[where] = record.original_offset + 1
            if transformed is not None:
                self._batch.append(transformed)

    def _note_topic(self, topic: str) -> None:
        if topic not in self._topics:
            self._topics.add(topic)
            self._topic_used(topic)

    def _record(self, message: confluent_kafka.Message, topic: str, partition: int) -> SinkRecord:
        offset = message.offset() or 0
        kind, timestamp_ms = message.timestamp()
        headers = []
        stage = "KEY_CONVERTER"
        try:
            key = self._converters.key.from_bytes(topic, _bytes(message.key()))
            stage = "VALUE_CONVERTER"
            value = self._converters.value.from_bytes(topic, _bytes(message.value()))
            stage = "HEADER_CONVERTER"
            for name, data in list(message.headers() or ()):
                found = self._converters.header.from_bytes(topic, _bytes(data))
                headers.append(Header(str(name), found.value, found.schema))
        except ConnectError as error:
            raise TaskFailed(
                f"Stage {stage} failed for offset {offset} of {topic}-{partition}: {error}"
            ) from error
        return SinkRecord(
            topic,
            partition,
            key.value,
            value.value,
            topic,
            partition,
            offset,
            None if kind == _NO_TIMESTAMP else timestamp_ms,
            headers,
            key.schema,
            value.schema,
        )

    def _batch_due(self) -> bool:
        if self._paused or not (self._batch or self._positions):
            return False
        return self._retry_at is None or self._clock.monotonic() >= self._retry_at

    def _put(self) -> None:
        try:
            if self._batch:
                self._task.put(tuple(self._batch))
        except Exception as error:
            if not is_retriable(error):
                raise TaskFailed(f"Task {self._name} could not put records: {error}") from error
            wait = _RETRY_S if self._context.retry_s is None else self._context.retry_s
            self._context.retry_s = None
            self._retry_at = self._clock.monotonic() + wait
            _log.warning(
                "Task %s could not put records: %s; again in %g s", self._name, error, wait
            )
        else:
            self._retry_at = None
            self._sent += len(self._batch)
            self._offsets.put(self._positions)
            self._batch, self._positions = [], {}
        self._apply_pauses()

    def _apply_requests(self) -> None:
        """What the task asked of its context."""
        if self._context.pauses_changed:
            self._context.pauses_changed = False
            self._apply_pauses()
        if self._context.seeks:
            seeks = {
                partition: offset
                for partition, offset in self._context.seeks.items()
                if partition in self._offsets.assigned
            }
            self._context.seeks.clear()
            self._go_to(seeks)
            self._offsets.moved(seeks)

    def _go_to(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._forget_batch(offsets)
        self._need_consumer().seek(offsets)

    def _apply_pauses(self) -> None:
        """Halt what must not be read now: everything while paused or while a batch waits."""
        assigned = self._offsets.assigned
        everything = self._paused or self._retry_at is not None
        wanted = set(assigned) if everything else self._context.paused & assigned
        halt, go_on = wanted - self._halted, (self._halted & assigned) - wanted
        if halt:
            self._need_consumer().pause(halt)
        if go_on:
            self._need_consumer().resume(go_on)
        self._halted = wanted

    def _assigned(self, partitions: list[TopicPartition]) -> None:
        if self._closing:
            return
        self._offsets.assign(partitions)
        try:
            self._task.open(partitions)
        except Exception as error:  # noqa: BLE001 - plugin code; raised again outside the callback
            self._rebalance_error = error

    def _revoked(self, partitions: list[TopicPartition], *, commit: bool) -> None:
        if self._closing:
            return
        try:
            self._leave(partitions, commit=commit)
        except Exception as error:  # noqa: BLE001 - plugin code; raised again outside the callback
            self._rebalance_error = error

    def _leave(self, partitions: Collection[TopicPartition], *, commit: bool) -> bool:
        leaving = sorted(partitions)
        committed = self._commit_now(leaving) if commit else True
        self._forget_batch(leaving)
        self._offsets.remove(leaving)
        self._halted -= set(leaving)
        self._context.paused -= set(leaving)
        if leaving:
            self._task.close(leaving)
        return committed

    def _forget_batch(self, partitions: Collection[TopicPartition]) -> None:
        gone = set(partitions)
        self._batch = [
            record
            for record in self._batch
            if (record.original_topic, record.original_partition) not in gone
        ]
        self._positions = {p: at for p, at in self._positions.items() if p not in gone}
        if not self._positions:
            self._retry_at = None

    def _allowed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int] | None:
        """What to commit; None: the task failed to say, and may be given records again."""
        asked = self._offsets.current(partitions)
        try:
            return self._offsets.to_commit(asked, self._task.pre_commit(dict(asked)))
        except Exception:  # noqa: BLE001 - plugin code; its records come again
            _log.exception(
                "Task %s could not prepare a commit; it goes back to the last one", self._name
            )
            return None

    def _commit_now(self, partitions: Collection[TopicPartition]) -> bool:
        offsets = self._allowed(partitions)
        if not offsets:
            return offsets is not None
        try:
            self._need_consumer().commit_now(offsets)
        except ConnectError as error:
            _log.error("The last offsets of task %s are not committed: %s", self._name, error)
            return False
        self._offsets.committed(offsets)
        return True

    def _commit_if_due(self) -> None:
        now = self._clock.monotonic()
        if self._committing_since is not None:
            if now - self._committing_since < self._timeout_s:
                return
            self._committed(ConnectError("Committing offsets takes too long"), {})
        if not (now >= self._commit_due or self._context.commit_requested or self._waiting):
            return
        self._commit_due = now + self._interval_s
        self._context.commit_requested = False
        self._answering, self._waiting = self._waiting, []
        offsets = self._allowed(self._offsets.assigned)
        if offsets is None:
            self._go_to(self._offsets.rewind(self._offsets.assigned))
            self._answer(ConnectError(f"Task {self._name} could not prepare a commit"))
        elif offsets:
            self._committing_since = now
            self._need_consumer().commit_soon(offsets)
        else:
            self._answer(None)

    def _committed(self, error: ConnectError | None, offsets: dict[TopicPartition, int]) -> None:
        if error is not None:
            _log.warning("Offsets of task %s are not committed now: %s", self._name, error)
        self._committing_since = None
        self._offsets.committed(offsets)
        self._answer(error)

    def _answer(self, error: ConnectError | None) -> None:
        answering, self._answering = self._answering, []
        for waiting in answering:
            if error is None:
                waiting.set_result(None)
            else:
                waiting.set_exception(error)

    def _read_metrics(self) -> Mapping[str, float]:
        """On whatever thread exposes metrics."""
        return {
            "sink-record-read-total": float(self._read),
            "sink-record-send-total": float(self._sent),
            "partition-count": float(len(self._offsets.assigned)),
        }


def _bytes(data: object) -> bytes | None:
    if data is None or isinstance(data, bytes):
        return data
    raise TypeError(f"{type(data).__name__} where the client gives bytes")
