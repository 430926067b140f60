"""Runs a `plugin.SinkTask`: read, convert, transform, put, and commit.

Everything happens on the task's thread, including rebalances, which are served during a poll. Only
`stopping` and `wake` are called from other threads.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future

import confluent_kafka

from connect.clients.wire.bootstrap_probe import need_resolvable
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConnectError, TaskFailed
from connect.loop import Backoff, is_retriable
from connect.metrics.client_metrics import ClientStatistics
from connect.metrics.sink_task_metrics import SINK_TASK_GROUP, SinkTaskMetrics
from connect.plugin import SinkTask, TopicPartition
from connect.runtime.error_handling.metrics import ERROR_GROUP
from connect.runtime.sink.batch import SinkBatch
from connect.runtime.sink.commits import SinkCommits
from connect.runtime.sink.consumer import SinkConsumer
from connect.runtime.sink.context import WorkerSinkTaskContext
from connect.runtime.sink.errors import SinkErrors
from connect.runtime.sink.intake import SinkIntake
from connect.runtime.sink.records import SinkRecordReader
from connect.runtime.tasks.task import RESOLVE_S, WorkerTask, in_lines

__all__ = ["WorkerSinkTask"]

_log = logging.getLogger(__name__)

# The longest poll. It cannot be woken, so a stop or a pause may be delayed by this long.
_POLL_S = 0.2
_RETRY_S = 1.0
_POLL_BACKOFF_S, _POLL_BACKOFF_CAP_S = 0.1, 1.0
# How long one attempt of a commit waits for pending writes to the dead letter queue.
_SETTLE_S = 1.0
# The part of a stop's time for waiting on brokers, first the last commit, then leaving the group,
# so that the task ends in time even if no broker answers.
_WAIT_SHARE, _COMMIT_SHARE, _CLOSE_SHARE = 0.9, 0.7, 0.8


class WorkerSinkTask(WorkerTask):
    """One sink task, its consumer and its commits."""

    def __init__(
        self,
        task: SinkTask,
        context: WorkerSinkTaskContext,
        config: Mapping[str, str],
        consumer: Mapping[str, str],
        reader: SinkRecordReader,
        errors: SinkErrors,
        topic_used: Callable[[str], None],
        *,
        commit_interval_s: float,
        commit_timeout_s: float,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Create the task. `consumer` are the Java properties of its consumer."""
        self._name = f"{context.connector_name}-{context.task_index}"
        self._task = task
        self._context = context
        self._offsets = context.offsets
        self._config = config
        self._properties = consumer
        self._intake = SinkIntake(context, reader, topic_used)
        self._errors = errors
        self._interval_s, self._timeout_s = commit_interval_s, commit_timeout_s
        self._clock = clock
        self._consumer: SinkConsumer | None = None
        self._statistics = ClientStatistics("consumer", consumer.get("client.id", ""))
        context.figures.add_client(self._statistics.read)
        self._poll_backoff = Backoff(_POLL_BACKOFF_S, _POLL_BACKOFF_CAP_S)
        self._batch = SinkBatch()
        self._retry_at: float | None = None
        self._unread: str | None = None
        self._unput = ""
        self._paused = self._closing = self._initialized = self._begun = False
        self._end: Deadline | None = None
        self._halted: set[TopicPartition] = set()
        self._rebalance_error: Exception | None = None
        self._commits = SinkCommits(commit_timeout_s, self._commit_ended)
        self._commit_due = clock.monotonic() + commit_interval_s
        self._woken = threading.Event()
        self._figures = SinkTaskMetrics(self._commits.counts, clock)
        context.figures.add(SINK_TASK_GROUP, self._figures.read_all)
        context.figures.add(ERROR_GROUP, errors.metrics.read)

    def start(self) -> None:
        need_resolvable(self._properties, Deadline(RESOLVE_S, self._clock))
        self._errors.start()
        self._consumer = SinkConsumer(
            self._properties,
            self._config,
            self._clock,
            on_assign=self._assigned,
            on_revoke=lambda partitions: self._revoked(partitions, lost=False),
            on_lost=lambda partitions: self._revoked(partitions, lost=True),
            on_commit=self._committed,
            overrides=self._statistics.overrides(),
        )
        self._initialized = True
        self._task.initialize(self._context)
        self._task.start(self._config)
        self._begun = True

    def turn(self) -> None:
        messages = self._poll()
        if self._rebalance_error is not None:
            raise self._rebalance_error
        self._figures.read(len(messages))
        self._intake.take(messages, self._batch)
        self._apply_pauses()
        if self._batch_due():
            self._put()
        self._apply_requests()
        self._commit_if_due()
        self._figures.turn(len(self._offsets.assigned), self._active())

    def pause(self) -> None:
        self._paused = True
        self._context.commit_requested = True
        self._apply_pauses()

    def resume(self) -> None:
        self._paused = False
        self._apply_pauses()

    def trouble(self) -> str | None:
        return in_lines(self._unread, self._unput if self._retry_at is not None else None)

    def commit_soon(self) -> Future[None]:
        return self._commits.request()

    def finish(self, deadline: Deadline, *, failed: bool) -> bool:
        """Finish as Java does, also after a failure: records put before it are worth a commit."""
        self._closing = True
        self._end = Deadline(deadline.remaining() * _WAIT_SHARE, self._clock)
        budget = min(self._timeout_s, self._end.remaining() * _COMMIT_SHARE)
        return self._leave(self._offsets.assigned, Deadline(budget, self._clock))

    def close(self) -> None:
        self._closing = True
        self._commits.abandon(ConnectError(f"Task {self._name} has ended"))
        end = self._end or Deadline(self._timeout_s, self._clock)
        try:
            if self._initialized:
                self._task.stop()
        finally:
            self._intake.close()
            try:
                self._close_consumer(Deadline(end.remaining() * _CLOSE_SHARE, self._clock))
            finally:
                self._errors.close(end)

    def wake(self) -> None:
        self._woken.set()

    def stopping(self) -> None:
        self._errors.errors.stop()
        self.wake()
        if self._begun:  # Before its start the task may have nothing yet that it could stop.
            self._task.stopping()

    def _need_consumer(self) -> SinkConsumer:
        assert self._consumer is not None
        return self._consumer

    def _close_consumer(self, deadline: Deadline) -> None:
        if self._consumer is not None and not self._consumer.close(deadline):
            _log.warning(
                "The consumer of task %s did not leave its group in time; its partitions may"
                " stay unassigned until session.timeout.ms has passed",
                self._name,
            )

    def _poll(self) -> Sequence[confluent_kafka.Message]:
        timeout = _POLL_S
        if self._woken.is_set():
            # Not cleared otherwise: another thread may set it right now.
            self._woken.clear()
            timeout = 0.0
        try:
            messages = self._need_consumer().poll(timeout)
        except ConnectError as error:
            if not error.retriable:
                raise
            level = logging.DEBUG if self._poll_backoff.failures else logging.WARNING
            _log.log(level, "Task %s cannot consume: %s; retrying", self._name, error)
            self._unread = f"The task cannot consume: {error}"
            self._woken.wait(self._poll_backoff.next())
            return ()
        self._unread = None
        self._poll_backoff.reset()
        return messages

    def _batch_due(self) -> bool:
        if self._paused or not self._batch:
            return False
        return self._retry_at is None or self._clock.monotonic() >= self._retry_at

    def _put(self) -> None:
        began = self._clock.monotonic()
        try:
            if self._batch.records:
                self._task.put(tuple(self._batch.records))
            self._errors.check()
        except Exception as error:
            if not is_retriable(error):
                raise TaskFailed(f"put of task {self._name} failed: {error}") from error
            wait = _RETRY_S if self._context.retry_s is None else self._context.retry_s
            self._context.retry_s = None
            self._retry_at = self._clock.monotonic() + wait
            self._unput = f"put failed and will be retried: {error}"
            _log.warning("put of task %s failed: %s; retrying in %g s", self._name, error, wait)
        else:
            self._retry_at = None
            if self._batch.records:
                count = len(self._batch.records)
                self._figures.put(count, (self._clock.monotonic() - began) * 1000)
                self._context.figures.batch(count)
            self._offsets.put(self._batch.positions)
            self._batch = SinkBatch()
        self._apply_pauses()

    def _apply_requests(self) -> None:
        """Apply the requests that the task made through its context."""
        if self._context.pauses_changed:
            self._context.pauses_changed = False
            self._apply_pauses()
        if not self._context.seeks:
            return
        asked, assigned = dict(self._context.seeks), self._offsets.assigned
        self._go_to({partition: at for partition, at in asked.items() if partition in assigned})
        for partition, at in asked.items():
            if partition not in assigned:
                self._context.seeks.pop(partition)
            elif partition not in self._context.seeks:
                self._offsets.moved({partition: at})

    def _go_to(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Seek. Partitions that the client cannot read yet wait for the next turn."""
        self._forget_batch(offsets)
        for partition, offset in offsets.items():
            if self._need_consumer().seek(partition, offset):
                self._context.seeks.pop(partition, None)
            else:
                self._context.seeks[partition] = offset

    def _apply_pauses(self) -> None:
        """Pause partitions that must not be read now: all while the task is paused or a batch
        waits.
        """
        assigned = self._offsets.assigned
        everything = self._paused or self._retry_at is not None
        wanted = set(assigned) if everything else self._context.paused & assigned
        halt, go_on = wanted - self._halted, (self._halted & assigned) - wanted
        if halt:
            self._need_consumer().pause(halt)
        if go_on:
            self._need_consumer().resume(go_on)
        self._halted = wanted

    def _assigned(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        if self._closing:
            return {}
        self._offsets.assign(partitions)
        try:
            self._task.open(partitions)
        except Exception as error:  # noqa: BLE001 - plugin code; raised again outside the callback
            self._rebalance_error = error
            return {}
        seeks = self._context.seeks
        starts = {partition: seeks.pop(partition) for partition in partitions if partition in seeks}
        self._offsets.moved(starts)
        return starts

    def _revoked(self, partitions: list[TopicPartition], *, lost: bool) -> None:
        if self._closing or not partitions:
            return
        try:
            if lost:
                self._lose(partitions)
            else:
                self._leave(partitions, Deadline(self._timeout_s, self._clock))
        except Exception as error:  # noqa: BLE001 - plugin code; raised again outside the callback
            self._rebalance_error = error

    def _leave(self, partitions: Collection[TopicPartition], deadline: Deadline) -> bool:
        """Release partitions in Java's order: prepare the commit, close, commit.

        Returns False if not everything is committed.
        """
        leaving = sorted(partitions)
        if not leaving:
            return True
        self._commits.begin(self._clock.monotonic())
        offsets = None
        try:
            if self._errors.settle(leaving, deadline):
                offsets = self._allowed(leaving)
        finally:
            self._close_partitions(leaving)
        error = self._commit_now(offsets, deadline)
        self._commits.ended(error)
        return error is None

    def _lose(self, partitions: Collection[TopicPartition]) -> None:
        """Handle lost partitions: other consumers already own them, so nothing can be committed."""
        self._commits.begin(self._clock.monotonic())
        self._commits.ended(ConnectError(f"Task {self._name} lost partitions in a rebalance"))
        self._errors.forget(partitions)
        self._close_partitions(sorted(partitions))

    def _close_partitions(self, leaving: Sequence[TopicPartition]) -> None:
        try:
            self._task.close(leaving)
        finally:
            self._forget_batch(leaving)
            self._offsets.remove(leaving)
            self._halted -= set(leaving)
            self._context.paused -= set(leaving)
            for partition in leaving:
                self._context.seeks.pop(partition, None)

    def _forget_batch(self, partitions: Collection[TopicPartition]) -> None:
        self._batch.forget(partitions)
        if not self._batch:
            self._retry_at = None

    def _allowed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int] | None:
        """Return the offsets to commit, or None if the task failed to prepare the commit.

        After a failure, the task may get records again.
        """
        asked = self._offsets.current(partitions)
        try:
            return self._offsets.to_commit(asked, self._task.pre_commit(dict(asked)))
        except Exception:  # noqa: BLE001 - plugin code; its records come again
            _log.exception(
                "Task %s failed to prepare an offset commit; rewinding to the last "
                "committed offsets; this is a defect of the plugin: report it to its "
                "author, with the trace",
                self._name,
            )
            return None

    def _commit_now(
        self, offsets: Mapping[TopicPartition, int] | None, deadline: Deadline
    ) -> ConnectError | None:
        """Commit and return the error, if any. `offsets` None: the commit could not be prepared."""
        if offsets is None:
            return ConnectError(f"Task {self._name} failed to prepare its final offset commit")
        try:
            if offsets:
                self._need_consumer().commit_now(offsets, deadline)
        except ConnectError as error:
            _log.error("Cannot commit the final offsets of task %s: %s", self._name, error)
            return error
        return None

    def _commit_if_due(self) -> None:
        now = self._clock.monotonic()
        if self._commits.timed_out(now):
            _log.warning(
                "Committing offsets of task %s takes longer than offset.flush.timeout.ms "
                "(%g s); still waiting",
                self._name,
                self._timeout_s,
            )
        asked = self._context.commit_requested or self._commits.requested
        if self._commits.under_way or not (asked or now >= self._commit_due):
            return
        assigned = self._offsets.assigned
        if not self._errors.settle(assigned, Deadline(_SETTLE_S, self._clock)):
            return
        self._commit_due = now + self._interval_s
        self._context.commit_requested = False
        self._commits.begin(now)
        offsets = self._allowed(assigned)
        if offsets is None:
            self._go_to(self._offsets.rewind(assigned))
            self._commits.ended(
                ConnectError(f"Task {self._name} failed to prepare an offset commit")
            )
        elif offsets:
            self._commit_soon(offsets)
        else:
            self._commits.ended(None)

    def _commit_soon(self, offsets: Mapping[TopicPartition, int]) -> None:
        try:
            self._need_consumer().commit_soon(offsets)
        except ConnectError as error:
            if not error.retriable:
                raise
            _log.warning("Cannot commit offsets of task %s: %s", self._name, error)
            self._commits.ended(error)
        else:
            self._commits.sent(offsets)

    def _committed(self, error: ConnectError | None, offsets: dict[TopicPartition, int]) -> None:
        """Handle the response to an asynchronous commit."""
        counts = self._commits.answered(offsets, error)
        if error is not None:
            _log.warning("Cannot commit offsets of task %s: %s", self._name, error)
        elif counts:
            self._offsets.committed(offsets)

    def _commit_ended(self, since_s: float, error: ConnectError | None) -> None:
        ms = (self._clock.monotonic() - since_s) * 1000
        self._context.figures.committed(ms, success=error is None)

    def _active(self) -> int:
        """Return the number of records that are read but not committed."""
        return self._offsets.active(self._batch.positions)
