"""Metrics of all tasks: state, commits, batches and plugins.

These are Kafka's groups `connector-task-metrics`, `connector-transform-metrics` and
`connector-predicate-metrics`. A task's other groups (`source-task-metrics`, ...) are added to its
`TaskMetrics`. All are published until the worker removes the task, which may be long after it
failed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from connect.clock import SYSTEM_CLOCK, Clock
from connect.metrics.registry import MetricRegistry, Read, ReadSamples
from connect.metrics.sensors import Outcomes, WindowedStat

__all__ = ["PluginAlias", "StateTimes", "TaskMetrics"]

_GROUP = "connector-task-metrics"
_UNASSIGNED = "unassigned"


@dataclass(frozen=True, slots=True)
class PluginAlias:
    """A transformation or predicate of a task.

    It has its alias in the config, its kind (`transform`, `predicate`), its class name and version.
    """

    kind: str
    alias: str
    class_name: str
    version: str


class StateTimes:
    """The time spent in each state, named in lower case. Safe from any thread."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._state = _UNASSIGNED
        self._began = self._since = clock.monotonic()
        self._seconds: dict[str, float] = {}

    @property
    def state(self) -> str:
        return self._state

    def change(self, state: str) -> None:
        now = self._clock.monotonic()
        with self._lock:
            self._seconds[self._state] = self._seconds.get(self._state, 0.0) + now - self._since
            self._state, self._since = state, now

    def share(self, state: str) -> float:
        """Return the share of the total time, 0 to 1, spent in `state`."""
        now = self._clock.monotonic()
        with self._lock:
            whole = now - self._began
            seconds = self._seconds.get(state, 0.0)
            if self._state == state:
                seconds += now - self._since
        return seconds / whole if whole > 0 else 0.0


class TaskMetrics:
    """The metrics of one task, from its creation to its end.

    `committed` and `batch` are for the task's thread, `add` and `describe` for the task's creator.
    The rest is safe from any thread.
    """

    def __init__(self, connector: str, task: int, clock: Clock = SYSTEM_CLOCK) -> None:
        self.connector = connector
        self._tags = {"connector": connector, "task": str(task)}
        self._clock = clock
        self._times = StateTimes(clock)
        self._commit_ms = WindowedStat()
        self._commits = Outcomes()
        self._batches = WindowedStat()
        self._about: Mapping[str, str] = {}
        self._groups: list[tuple[str, Mapping[str, str], Read]] = [(_GROUP, self._tags, self.read)]
        self._clients: list[ReadSamples] = []

    @property
    def state(self) -> str:
        """The task's state in lower case."""
        return self._times.state

    def describe(self, about: Mapping[str, str], plugins: Sequence[PluginAlias] = ()) -> None:
        """Set the task's classes, versions (`task-class`, `key-converter-version`, ...) and
        plugins.

        Call it before `register`.
        """
        self._about = dict(about)
        for plugin in plugins:
            tags = {**self._tags, plugin.kind: plugin.alias}
            values: dict[str, float | str] = {
                f"{plugin.kind}-class": plugin.class_name,
                f"{plugin.kind}-version": plugin.version,
            }
            self._groups.append((f"connector-{plugin.kind}-metrics", tags, values.copy))

    def add(self, group: str, read: Read) -> None:
        """Add another metrics group of this task. Call it before `register`."""
        self._groups.append((group, self._tags, read))

    def add_client(self, read: ReadSamples) -> None:
        """Add the metrics of a client of this task. Call it before `register`."""
        self._clients.append(read)

    def register(self, registry: MetricRegistry) -> Callable[[], None]:
        """Publish all groups. Return a function that removes them and may be called twice."""
        removers = [registry.register(*group) for group in self._groups]
        name = f"clients of {self.connector}-{self._tags['task']}"
        removers += [registry.register_samples(name, read) for read in self._clients]

        def remove() -> None:
            for each in removers:
                each()

        return remove

    def state_changed(self, state: str) -> None:
        """Record a change of state (`running`)."""
        self._times.change(state)

    def committed(self, ms: float, *, success: bool) -> None:
        """Record the end of an offset commit that took `ms`.

        As in Java, the times include only successful commits.
        """
        now_ms = self._clock.now_ms()
        self._commits.record(success, now_ms)
        if success:
            self._commit_ms.record(ms, now_ms)

    def batch(self, records: int) -> None:
        """Record a batch that the task handled."""
        self._batches.record(records, self._clock.now_ms())

    def read(self) -> Mapping[str, float | str]:
        now_ms = self._clock.now_ms()
        _, commit_max, commit_avg = self._commit_ms.summary(now_ms)
        _, batch_max, batch_avg = self._batches.summary(now_ms)
        succeeded, failed = self._commits.shares(now_ms)
        return {
            "status": self._times.state,
            "running-ratio": self._times.share("running"),
            "pause-ratio": self._times.share("paused"),
            "offset-commit-max-time-ms": commit_max,
            "offset-commit-avg-time-ms": commit_avg,
            "offset-commit-success-percentage": succeeded,
            "offset-commit-failure-percentage": failed,
            "batch-size-max": batch_max,
            "batch-size-avg": batch_avg,
            **self._about,
        }
