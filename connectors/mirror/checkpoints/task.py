"""MirrorCheckpointTask: translates its groups' committed offsets and emits them as checkpoints.

It has three threads. The task's thread returns due checkpoints to the worker, which produces them.
One loop loads earlier checkpoints and then translates every `emit.checkpoints.interval.seconds`.
With `sync.group.offsets.enabled`, another loop commits translated offsets for the groups on the
target. Only the loops wait for clusters.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence

from connect.clients.errors import broker_code
from connect.clients.groups.consumer_groups import ConsumerGroups
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import AuthenticationFailed, ConnectError
from connect.log_fields import add_log_fields
from connect.loop import BackgroundLoop
from connect.plugin import RecordMetadata, SourceRecord, SourceTask
from connect.protocol.error_codes import ErrorCode
from connectors.mirror.background.cluster_loop import STOP_TIMEOUT_S, cluster_loop
from connectors.mirror.background.status_messages import StatusMessages
from connectors.mirror.checkpoints.group_offset_sync import GroupSyncOutcome, sync_group_offsets
from connectors.mirror.checkpoints.metrics import CheckpointMetrics
from connectors.mirror.checkpoints.moved_groups import MovedGroups
from connectors.mirror.checkpoints.round import CheckpointRounds, Emission
from connectors.mirror.checkpoints.store import CheckpointBook, CheckpointReader
from connectors.mirror.checkpoints.translation_engine import EngineSetup, TranslationEngine
from connectors.mirror.config import clients as client_configs
from connectors.mirror.config.checkpoint import CheckpointTaskConfig
from connectors.mirror.filters import topic_filter
from connectors.mirror.formats import Checkpoint
from connectors.mirror.history.database import History, open_history
from connectors.mirror.history.rows import FlowTask
from connectors.mirror.offsets.translator import translation_topics
from connectors.mirror.replication_policy import replication_policy

__all__ = ["CheckpointSchedule", "MirrorCheckpointTask", "checkpoint_record"]

_LOG = logging.getLogger(__name__)

_POLL_S = 1.0
_LEAST_INTERVAL_S = 0.1
"""Minimum interval. `emit.checkpoints.interval.seconds=0` means no pause, and this limits the load
on brokers."""
_FIRST_WAIT_S = 1.0
_LOAD_S = 600.0
"""Time limit for reading checkpoints, offset syncs and the offset map to their ends, which may take
long. After it the read is restarted."""
_CLOSE_S = 2.0


class CheckpointSchedule:
    """When rounds are due: often at first, then at the interval. A new flow cannot translate any
    offset at first, and all of them a little later. Pure."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = max(_LEAST_INTERVAL_S, interval_s)
        self._unknown_until: float | None = None
        self._wait_s = min(_FIRST_WAIT_S, self._interval_s)
        self._due_at: float | None = None

    @property
    def tick_s(self) -> float:
        """Return how often to check, in seconds."""
        return min(_FIRST_WAIT_S, self._interval_s)

    def is_due(self, now: float) -> bool:
        """Whether a round is due. `now`: monotonic seconds."""
        # A tick that comes slightly early counts, so that the round does not wait for the next one.
        return self._due_at is None or now >= self._due_at - self.tick_s / 2

    def done(self, now: float, *, known: bool = True) -> None:
        """Record the end of a round. `known`: it translated an offset of at least one group. Until
        then rounds stay frequent, for at most one interval."""
        if self._unknown_until is None:
            self._unknown_until = now + self._interval_s
        self._due_at = now + self._wait_s
        if known or now >= self._unknown_until:
            self._wait_s = min(self._wait_s * 2, self._interval_s)


def checkpoint_record(checkpoint: Checkpoint, topic: str, read_at_ms: int) -> SourceRecord:
    """Build a checkpoint source record. Its source offset is always 0, because tasks never read it
    back."""
    return SourceRecord(
        # Java's field order, because it determines the bytes of the stored key.
        source_partition={
            "partition": checkpoint.partition,
            "topic": checkpoint.topic,
            "group": checkpoint.group,
        },
        source_offset={"offset": 0},
        topic=topic,
        partition=0,
        key=checkpoint.key(),
        value=checkpoint.value(),
        timestamp_ms=read_at_ms,
    )


class MirrorCheckpointTask(SourceTask):
    """Emits the checkpoints of its groups."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._due = threading.Condition()
        self._emission: Emission | None = None
        self._stopping = False
        self._failure: Exception | None = None
        self._source: ConsumerGroups | None = None
        self._target: ConsumerGroups | None = None
        self._reader: CheckpointReader | None = None
        self._translator: TranslationEngine | None = None
        self._translate_loop: BackgroundLoop | None = None
        self._sync_loop: BackgroundLoop | None = None
        self._metrics: CheckpointMetrics | None = None
        self._history: History | None = None
        self._loaded = self._syncing = False
        self._keep_all_syncs = True
        self._sync_failures: dict[str, str] = {}
        self._trouble: str | None = None
        self._troubles = StatusMessages(self._in_trouble)
        self._unread_in_trouble = self._troubles.part("unread")
        self._unsynced_in_trouble = self._troubles.part("unsynced")

    @classmethod
    def transforms_records(cls) -> bool:
        """Return False: the flow's transformations are for copied records. They change only the
        topic name of checkpoints."""
        return False

    # Methods of the task's thread.

    def start(self, config: Mapping[str, str]) -> None:
        task = CheckpointTaskConfig.from_properties(config)
        self._config, self._props, self._index = task.connector, config, task.task_index
        source, target = self._config.source_cluster_alias, self._config.target_cluster_alias
        self._flow = self._config.flow
        add_log_fields(flow=self._flow)
        policy = replication_policy(config)
        self._topic = policy.checkpoints_topic(source)
        self._timeout = self._config.admin_timeout_ms / 1000
        self._book = CheckpointBook()
        self._rounds = CheckpointRounds(
            source,
            target,
            task.task_assigned_groups,
            policy,
            topic_filter(config),
            self._book,
            self._clock,
        )
        self._metrics = CheckpointMetrics(self.context.metrics, source, target, self._clock)
        self._source = ConsumerGroups(client_configs.checkpoint_source_admin(config, self._index))
        self._history = open_history(
            self._config.mirror_history_url, self._config.mirror_history_retention_days
        )
        self._moved = MovedGroups(target)
        self._pace = CheckpointSchedule(self._config.emit_checkpoints_interval_s or 0.0)
        self._translate_loop = self._loop("Checkpoints", self._translate, self._pace.tick_s)
        sync_interval_s = self._config.sync_group_offsets_interval_s
        if sync_interval_s is not None:
            self._target = ConsumerGroups(
                client_configs.checkpoint_target_admin(config, self._index)
            )
            self._sync_loop = self._loop("Group offset sync", self._sync, sync_interval_s)
        self._translate_loop.start()

    def poll(self) -> Sequence[SourceRecord] | None:
        with self._due:
            self._due.wait_for(lambda: self._emission or self._failure or self._stopping, _POLL_S)
            emission, self._emission = self._emission, None
            failure = self._failure
        if failure is not None:
            raise failure
        if emission is None:
            return None
        return [
            checkpoint_record(checkpoint, self._topic, emission.read_at_ms)
            for checkpoint in emission.checkpoints
        ]

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        """Called on the producer's thread."""
        if metadata is None or self._metrics is None or record.timestamp_ms is None:
            return
        partition = record.source_partition
        group, topic, number = partition["group"], partition["topic"], partition["partition"]
        assert isinstance(number, int)
        self._metrics.acknowledged(str(group), str(topic), number, record.timestamp_ms)

    def stopping(self) -> None:
        with self._due:
            self._stopping = True
            self._due.notify_all()

    def stop(self) -> None:
        self.stopping()
        loops = [loop for loop in (self._translate_loop, self._sync_loop) if loop is not None]
        for loop in loops:
            loop.request_stop()
        if self._reader is not None:
            self._reader.close()
        self._close_translator()
        for loop in loops:
            loop.stop(STOP_TIMEOUT_S)
        # Also an engine that was being created meanwhile.
        self._close_translator()
        for client in (self._source, self._target):
            if client is not None:
                client.close()
        if self._metrics is not None:
            self._metrics.remove()
        history, self._history = self._history, None
        if history is not None:
            history.close()

    def _loop(self, name: str, step: Callable[[], None], interval_s: float) -> BackgroundLoop:
        return cluster_loop(
            f"{name} of {self._flow} task {self.context.task_index}",
            step,
            interval_s,
            self._fail,
            self._clock,
            on_trouble=self._troubles.part(name),
        )

    def trouble(self) -> str | None:
        return self._trouble

    def _in_trouble(self, trouble: str | None) -> None:
        """Set the current problem. Called on the loops' threads."""
        self._trouble = trouble

    def _fail(self, error: Exception) -> None:
        """Fail the task with its next poll, because a loop ended permanently."""
        with self._due:
            self._failure = error
            self._due.notify_all()

    # Methods of the translating loop's thread.

    def _translate(self) -> None:
        with self._due:
            if self._emission is not None:
                return  # The task's thread has not taken the last checkpoints yet.
        if not self._pace.is_due(self._clock.monotonic()):
            return
        if not self._loaded:
            self._load_checkpoints()
        translator = self._opened_translator()
        assert self._source is not None
        try:
            emission = self._rounds.run(self._source, translator, Deadline(self._timeout))
        except ConnectError as error:
            if not error.retriable:
                # Its readers do not recover by themselves.
                self._close_translator()
            raise
        self._pace.done(self._clock.monotonic(), known=emission.known)
        self._unread_in_trouble(emission.unread)
        if emission.checkpoints:
            with self._due:
                self._emission = emission
                self._due.notify_all()
        if self._sync_loop is not None and not self._syncing:
            self._syncing = True
            self._sync_loop.start()

    def _load_checkpoints(self) -> None:
        properties = client_configs.checkpoints_consumer(self._props, self._index)
        wanted = frozenset(self._rounds.groups).__contains__
        self._reader = CheckpointReader(self._topic, properties, self._book.load, wanted)
        try:
            self._reader.run(Deadline(_LOAD_S))
        except ConnectError as error:
            if error.retriable or isinstance(error, AuthenticationFailed) or self._stopping:
                raise
            # As in Java: a task without its own checkpoints must not use old syncs, which could
            # move groups back.
            _LOG.warning(
                "%s: cannot read the earlier checkpoints, so only the newest offset syncs are "
                "used for translation: %s",
                self._flow,
                error,
            )
            self._keep_all_syncs = False
        self._loaded = True

    def _opened_translator(self) -> TranslationEngine:
        if self._translator is None:
            translator = self._translator = TranslationEngine(
                EngineSetup(
                    self._config.mirror_translation_engine,
                    self._config.mirror_translation_spark_min_offsets,
                    f"{self._flow} task {self.context.task_index}",
                    self._props,
                    translation_topics(self._props, self._index),
                    self.context.metrics,
                    on_ready=self._spark_ready,
                    keep_all_syncs=self._keep_all_syncs,
                )
            )
            try:
                translator.open(Deadline(_LOAD_S))
            except ConnectError:
                self._close_translator()
                raise
        return self._translator

    def _close_translator(self) -> None:
        translator, self._translator = self._translator, None
        if translator is not None:
            translator.close(Deadline(_CLOSE_S))

    # Methods of Spark's thread.

    def _spark_ready(self) -> None:
        """Wake the rounds that wait for Spark."""
        if self._config.mirror_translation_engine == "spark":
            for loop in (self._translate_loop, self._sync_loop):
                if loop is not None:
                    loop.wake()

    # Methods of the syncing loop's thread.

    def _sync(self) -> None:
        translator = self._translator
        if self._target is None or translator is None:
            return  # The translating loop is opening a new engine.
        void, groups = self._book.void(), self._book.groups()
        outcome = sync_group_offsets(
            self._target,
            groups,
            Deadline(self._timeout),
            translator.plan_group_offsets,
            void,
        )
        self._book.settle(outcome.settled)
        self._report(outcome)
        self._note_moved(groups, outcome.active)

    def _note_moved(self, groups: Collection[str], active: Collection[str]) -> None:
        """Write into the history which groups have moved to the target, or back."""
        name = FlowTask(
            self.context.connector_name,
            self.context.task_index,
            self._config.source_cluster_alias,
            self._config.target_cluster_alias,
        )
        for event in self._moved.look(groups, active):
            _LOG.info("%s: %s", self._flow, event.text)
            if self._history is not None:
                self._history.add(name, event)

    def _report(self, outcome: GroupSyncOutcome) -> None:
        """Log the written offsets; log each failure when it is new or has changed."""
        if outcome.written:
            _LOG.info(
                "%s: committed %d offsets of %d groups on the target",
                self._flow,
                sum(outcome.written.values()),
                len(outcome.written),
            )
        failures = {group: _reason(group, error) for group, error in outcome.failed.items()}
        for group, reason in failures.items():
            if self._sync_failures.get(group) != reason:
                _LOG.warning(
                    "%s: offsets of group %s were not synced: %s", self._flow, group, reason
                )
        self._sync_failures = failures
        self._unsynced_in_trouble(_not_synced(failures))


def _not_synced(failures: Mapping[str, str]) -> str | None:
    if not failures:
        return None
    group = min(failures)
    what = f"cannot commit the offsets of {len(failures)} groups on the target"
    return f"{what}, for example {group}: {failures[group]}"


def _reason(group: str, error: ConnectError) -> str:
    """Return why a group failed. It names Read: with Describe alone, which the first refused
    request needs, the next request would be refused."""
    if broker_code(error) != ErrorCode.GROUP_AUTHORIZATION_FAILED:
        return str(error)
    return f"{error}; to commit its offsets, grant Read on group {group}"
