"""The state defined by the records of the config topic: connectors, tasks, target states.

`ConfigStateBuilder` applies records in topic order, and returns immutable snapshots and events. It
has no clock, thread or socket. Its rules are exactly those of Kafka Connect
(KafkaConfigBackingStore): workers compare what they read, so all must derive the same state from
the same topic, also after compaction removed records.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from connect.storage.config_records import (
    ConfigRecord,
    ConnectorConfigRecord,
    LoggerLevel,
    RestartRequest,
    SessionKey,
    TargetStateRecord,
    TaskCommitRecord,
    TaskConfigRecord,
    TaskCountRecord,
    UnusableRecord,
)
from connect.storage.instance_id import InstanceId, TargetState

__all__ = [
    "EMPTY_STATE",
    "NO_OFFSET",
    "AppliedConfig",
    "ClusterConfigState",
    "ConfigEvent",
    "ConfigStateBuilder",
    "ConfigTransform",
    "ConnectorConfigRemoved",
    "ConnectorConfigUpdated",
    "TargetStateChanged",
    "TaskConfigsUpdated",
]

_log = logging.getLogger(__name__)

NO_OFFSET = -1
"""The config offset of a worker that has read no record."""

ConfigTransform = Callable[[str, Mapping[str, str]], Mapping[str, str]]
"""Resolves the config provider references in a raw config: (connector, raw config) -> config."""


@dataclass(frozen=True, slots=True)
class ConnectorConfigUpdated:
    connector: str


@dataclass(frozen=True, slots=True)
class ConnectorConfigRemoved:
    connector: str


@dataclass(frozen=True, slots=True)
class TaskConfigsUpdated:
    """A connector's task configs were committed.

    `tasks` may be empty: then only the number of tasks, or nothing, has changed.
    """

    tasks: tuple[InstanceId, ...]


@dataclass(frozen=True, slots=True)
class TargetStateChanged:
    connector: str


ConfigEvent = (
    ConnectorConfigUpdated
    | ConnectorConfigRemoved
    | TaskConfigsUpdated
    | TargetStateChanged
    | SessionKey
    | RestartRequest
    | LoggerLevel
)


class AppliedConfig:
    """The config of a connector at the time when its tasks were committed.

    It is resolved once, on first use, so that a later change of a provided value is noticed.
    """

    __slots__ = ("_raw", "_transformed")

    def __init__(self, raw: Mapping[str, str]) -> None:
        self._raw = raw
        self._transformed: Mapping[str, str] | None = None

    def config(self, connector: str, transform: ConfigTransform | None) -> Mapping[str, str]:
        if self._transformed is None:
            self._transformed = self._raw if transform is None else transform(connector, self._raw)
        return self._transformed


@dataclass(frozen=True, slots=True)
class ClusterConfigState:
    """An immutable snapshot of the config topic's state. Safe for all threads.

    Its maps must not be changed. Configs may hold secrets, so printing a snapshot shows none.
    """

    offset: int = NO_OFFSET
    """The offset after the last record read. Workers compare it."""
    session_key: SessionKey | None = None
    connector_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    task_configs: Mapping[InstanceId, Mapping[str, str]] = field(default_factory=dict, repr=False)
    task_counts: Mapping[str, int] = field(default_factory=dict)
    target_states: Mapping[str, TargetState] = field(default_factory=dict)
    task_count_records: Mapping[str, int] = field(default_factory=dict)
    generations: Mapping[str, int] = field(default_factory=dict)
    applied_configs: Mapping[str, AppliedConfig] = field(default_factory=dict, repr=False)
    connectors_pending_fencing: frozenset[str] = frozenset()
    inconsistent: frozenset[str] = frozenset()
    transform: ConfigTransform | None = field(default=None, repr=False, compare=False)

    def connectors(self) -> list[str]:
        """Return the names of all connectors, sorted."""
        return sorted(self.connector_configs)

    def contains(self, connector: str) -> bool:
        return connector in self.connector_configs

    def raw_connector_config(self, connector: str) -> Mapping[str, str] | None:
        """Return the config as the user wrote it, or None for an unknown connector."""
        return self.connector_configs.get(connector)

    def connector_config(self, connector: str) -> Mapping[str, str] | None:
        """Return the config to run with, in which config providers are resolved now."""
        return self._transformed(connector, self.connector_configs.get(connector))

    def applied_connector_config(self, connector: str) -> Mapping[str, str] | None:
        """Return the config from which the connector's current tasks were made."""
        applied = self.applied_configs.get(connector)
        return None if applied is None else applied.config(connector, self.transform)

    def target_state(self, connector: str) -> TargetState | None:
        return self.target_states.get(connector)

    def tasks(self, connector: str) -> list[InstanceId]:
        """Return the connector's tasks in order; none while its task configs are inconsistent."""
        if connector in self.inconsistent:
            return []
        return [InstanceId(connector, task) for task in range(self.task_count(connector))]

    def task_count(self, connector: str) -> int:
        """Return the committed number of tasks, whether or not their configs are consistent; 0 for
        none.
        """
        return self.task_counts.get(connector, 0)

    def raw_task_config(self, task: InstanceId) -> Mapping[str, str] | None:
        return self.task_configs.get(task)

    def task_config(self, task: InstanceId) -> Mapping[str, str] | None:
        """Return the config to run the task with, resolved like `connector_config`."""
        return self._transformed(task.connector, self.task_configs.get(task))

    def raw_task_configs(self, connector: str) -> list[Mapping[str, str]]:
        """Return the configs of `tasks(connector)`, in the same order."""
        return [self.task_configs[task] for task in self.tasks(connector)]

    def task_count_record(self, connector: str) -> int | None:
        """Return the number of tasks at the last zombie fencing, or None."""
        return self.task_count_records.get(connector)

    def task_config_generation(self, connector: str) -> int | None:
        """Return the number of commits of task configs since this worker began to read, from 0.

        Use it only to detect changes: other workers may count differently.
        """
        return self.generations.get(connector)

    def pending_fencing(self, connector: str) -> bool:
        """Return whether tasks were committed since the last zombie fencing."""
        return connector in self.connectors_pending_fencing

    def _transformed(
        self, connector: str, config: Mapping[str, str] | None
    ) -> Mapping[str, str] | None:
        if config is None or self.transform is None:
            return config
        return self.transform(connector, config)


EMPTY_STATE = ClusterConfigState()


class ConfigStateBuilder:
    """Applies records one by one. Not thread-safe: its store has a lock.

    There are no events until `startup_complete`, because earlier records are not changes.
    """

    def __init__(self, transform: ConfigTransform | None = None) -> None:
        self._transform = transform
        self._started = False
        self._offset = NO_OFFSET
        self._session_key: SessionKey | None = None
        self._connector_configs: dict[str, Mapping[str, str]] = {}
        self._task_configs: dict[InstanceId, Mapping[str, str]] = {}
        self._deferred: dict[str, dict[InstanceId, Mapping[str, str]]] = {}
        self._task_counts: dict[str, int] = {}
        self._target_states: dict[str, TargetState] = {}
        self._task_count_records: dict[str, int] = {}
        self._generations: dict[str, int] = {}
        self._applied_configs: dict[str, AppliedConfig] = {}
        self._pending_fencing: set[str] = set()
        self._inconsistent: set[str] = set()
        self._snapshot: ClusterConfigState | None = None

    def startup_complete(self) -> None:
        """Report the records from now on as events."""
        self._started = True

    def apply(self, offset: int, record: ConfigRecord) -> tuple[ConfigEvent, ...]:
        """Apply the record at this offset. Return the events for listeners.

        A record with a JSON value counts in the config offset even if it is unusable.
        """
        self._offset = offset + 1
        self._snapshot = None
        events = self._take(record)
        return events if self._started else ()

    def snapshot(self) -> ClusterConfigState:
        """Return the state after all records so far."""
        if self._snapshot is None:
            self._snapshot = ClusterConfigState(
                offset=self._offset,
                session_key=self._session_key,
                connector_configs=dict(self._connector_configs),
                task_configs=dict(self._task_configs),
                task_counts=dict(self._task_counts),
                target_states=dict(self._target_states),
                task_count_records=dict(self._task_count_records),
                generations=dict(self._generations),
                applied_configs=dict(self._applied_configs),
                connectors_pending_fencing=frozenset(self._pending_fencing),
                inconsistent=frozenset(self._inconsistent),
                transform=self._transform,
            )
        return self._snapshot

    def _take(self, record: ConfigRecord) -> tuple[ConfigEvent, ...]:
        match record:
            case ConnectorConfigRecord(connector, None):
                self._forget(connector)
                return (ConnectorConfigRemoved(connector),)
            case ConnectorConfigRecord(connector, config) if config is not None:
                self._connector_configs[connector] = config
                self._target_states.setdefault(connector, TargetState.STARTED)
                return (ConnectorConfigUpdated(connector),)
            case TaskConfigRecord(task, config):
                self._deferred.setdefault(task.connector, {})[task] = config
                return ()
            case TaskCommitRecord():
                return self._commit(record)
            case TargetStateRecord():
                return self._set_target_state(record)
            case TaskCountRecord(connector, tasks):
                self._task_count_records[connector] = tasks
                self._pending_fencing.discard(connector)
                return ()
            case SessionKey():
                self._session_key = record
                return (record,)
            case RestartRequest() | LoggerLevel():
                return (record,)
            case UnusableRecord(reason):
                _log.error("Ignoring a record of the config topic: %s", reason)
        return ()

    def _set_target_state(self, record: TargetStateRecord) -> tuple[ConfigEvent, ...]:
        connector, known = record.connector, record.connector in self._connector_configs
        if record.state is None:
            # The herder acts on the removal of the config. A connector that still exists always has
            # some target state.
            self._target_states.pop(connector, None)
            if known:
                self._target_states[connector] = TargetState.STARTED
            return ()
        changed = self._target_states.get(connector) is not record.state
        self._target_states[connector] = record.state
        return (TargetStateChanged(connector),) if changed and known else ()

    def _commit(self, commit: TaskCommitRecord) -> tuple[ConfigEvent, ...]:
        connector, count = commit.connector, commit.tasks
        config = self._connector_configs.get(connector)
        if config is None:
            # The connector was deleted, or compaction left its config after this commit. Then its
            # tasks will be committed again.
            self._forget(connector)
            return ()
        if count is None:
            _log.error(
                "Ignoring a task commit record of connector %s: it has no number of tasks",
                connector,
            )
            return ()
        waiting = self._deferred.get(connector)
        if waiting == {} and 0 < count == self._task_counts.get(connector):
            # A producer whose acknowledgement was lost has written the last commit again.
            return ()
        present = set() if waiting is None else {task.task for task in waiting}
        updated: tuple[InstanceId, ...] = ()
        # More task configs than committed may be pending, because compaction keeps those of removed
        # tasks.
        if present.issuperset(range(count)):
            if waiting is not None:
                self._task_configs.update(waiting)
                updated = tuple(waiting)
                self._generations[connector] = self._generations.get(connector, -1) + 1
            self._inconsistent.discard(connector)
            self._applied_configs[connector] = AppliedConfig(config)
        else:
            _log.debug(
                "Only tasks %s of the %d tasks of connector %s have configs",
                present,
                count,
                connector,
            )
            self._inconsistent.add(connector)
        if waiting is not None:
            # The pending configs are emptied, not removed: a later commit without configs is a new
            # generation.
            self._deferred[connector] = {}
        self._task_counts[connector] = count
        self._pending_fencing.add(connector)
        return (TaskConfigsUpdated(updated),)

    def _forget(self, connector: str) -> None:
        """Remove a deleted connector.

        Its target state, fencing, generation and inconsistency stay, because they have records of
        their own.
        """
        self._connector_configs.pop(connector, None)
        self._task_counts.pop(connector, None)
        self._deferred.pop(connector, None)
        self._applied_configs.pop(connector, None)
        for task in [task for task in self._task_configs if task.connector == connector]:
            del self._task_configs[task]
