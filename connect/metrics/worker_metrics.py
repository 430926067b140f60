"""Metrics of a worker: Kafka's groups `connect-worker-metrics`, `connector-metrics` and `app-info`.

`connect-worker-metrics` exists for the worker itself, and for each connector with tasks on it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from connect.clock import SYSTEM_CLOCK, Clock
from connect.metrics.registry import MetricRegistry, MetricSample, MetricValue, OwnedMetrics
from connect.metrics.sensors import Outcomes
from connect.metrics.task_metrics import TaskMetrics

__all__ = ["TASK_STATES", "HostedTask", "WorkerMetrics"]

_WORKER_GROUP = "connect-worker-metrics"
_CONNECTOR_GROUP = "connector-metrics"
_APP_INFO_GROUP = "app-info"

# How long a description is kept for a connector that has no status yet.
_FORGET_S = 600.0

TASK_STATES = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")
"""The task states that are counted for each connector."""


class _Startups:
    """Attempts to start connectors or tasks. Guarded by the owner's lock."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._succeeded = self._failed = 0
        self._outcomes = Outcomes()

    def record(self, success: bool, now_ms: int) -> None:
        self._succeeded += success
        self._failed += not success
        self._outcomes.record(success, now_ms)

    def read(self, now_ms: int) -> dict[str, float]:
        succeeded, failed = self._outcomes.shares(now_ms)
        return {
            f"{self._kind}-startup-attempts-total": float(self._succeeded + self._failed),
            f"{self._kind}-startup-success-total": float(self._succeeded),
            f"{self._kind}-startup-failure-total": float(self._failed),
            f"{self._kind}-startup-success-percentage": succeeded,
            f"{self._kind}-startup-failure-percentage": failed,
        }


class WorkerMetrics:
    """Metrics of a worker, published in `registry` between `show` and `hide`. Thread-safe.

    `statuses` returns the state, in lower case, of each connector on this worker. It is called when
    the metrics are read.
    """

    def __init__(
        self,
        worker_id: str,
        version: str,
        registry: MetricRegistry,
        statuses: Callable[[], Mapping[str, str]],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._worker_id = worker_id
        self._version = version
        self._registry = registry
        self._statuses = statuses
        self._clock = clock
        self._start_ms = clock.now_ms()
        self._lock = threading.Lock()
        self._tasks: dict[TaskMetrics, Callable[[], None]] = {}
        self._connectors: dict[str, tuple[float, Mapping[str, str]]] = {}
        self._connector_startups = _Startups("connector")
        self._task_startups = _Startups("task")
        self._remove: Callable[[], None] | None = None

    def show(self) -> None:
        self._remove = self._registry.register_samples("the worker", self.read)

    def hide(self) -> None:
        """Remove the metrics of the worker and of its tasks."""
        if self._remove is not None:
            self._remove()
        with self._lock:
            tasks = list(self._tasks)
        for task in tasks:
            self.remove_task(task)

    def connector_started(self, success: bool) -> None:
        """Record a connector start."""
        with self._lock:
            self._connector_startups.record(success, self._clock.now_ms())

    def task_started(self, success: bool) -> None:
        """Record a task start."""
        with self._lock:
            self._task_startups.record(success, self._clock.now_ms())

    def describe_connector(self, name: str, about: Mapping[str, str]) -> None:
        """Set a connector's `connector-class`, `connector-type` and `connector-version`.

        They are dropped some time after the connector is gone.
        """
        with self._lock:
            self._connectors[name] = (self._clock.monotonic(), dict(about))

    def add_task(self, task: TaskMetrics) -> None:
        """Add the metrics of a task that this worker runs."""
        remove = task.register(self._registry)
        with self._lock:
            self._tasks[task] = remove

    def remove_task(self, task: TaskMetrics) -> None:
        """Remove the metrics of a task. May be called again."""
        with self._lock:
            remove = self._tasks.pop(task, None)
        if remove is not None:
            remove()

    def read(self) -> Iterator[MetricSample]:
        statuses = self._statuses()
        now_ms = self._clock.now_ms()
        with self._lock:
            tasks = list(self._tasks)
            self._forget_connectors(statuses)
            connectors = {name: about for name, (_, about) in self._connectors.items()}
            startups = self._connector_startups.read(now_ms) | self._task_startups.read(now_ms)
        info: dict[str, MetricValue] = {"version": self._version, "start-time-ms": self._start_ms}
        yield MetricSample(_APP_INFO_GROUP, {"client-id": self._worker_id}, info)
        counts = {"connector-count": float(len(statuses)), "task-count": float(len(tasks))}
        yield MetricSample(_WORKER_GROUP, {}, {**counts, **startups})
        for name, status in statuses.items():
            about = connectors.get(name, {})
            yield MetricSample(_CONNECTOR_GROUP, {"connector": name}, {**about, "status": status})
        yield from _task_counts(tasks)

    def _forget_connectors(self, present: Mapping[str, str]) -> None:
        since = self._clock.monotonic() - _FORGET_S
        for name, (described, _) in list(self._connectors.items()):
            if name not in present and described < since:
                del self._connectors[name]


class HostedTask:
    """Records the start, the states and the end of one task. Thread-safe."""

    def __init__(
        self, worker: WorkerMetrics, figures: TaskMetrics, own: OwnedMetrics | None = None
    ) -> None:
        """`own`: what the plugin registers."""
        self._worker = worker
        self._figures = figures
        self._own = own
        self._start_decided = False

    def begun(self) -> None:
        """Publish the task's metrics, because its thread starts."""
        self._worker.add_task(self._figures)

    def state_changed(self, state: str) -> None:
        """Record a change of state, in lower case. The first one decides whether the start
        succeeded.
        """
        self._figures.state_changed(state)
        if not self._start_decided and state in ("running", "paused", "failed"):
            self._start_decided = True
            self._worker.task_started(state != "failed")

    def ended(self) -> None:
        """Remove the task's metrics, because the worker dropped the task. May be called again."""
        self._worker.remove_task(self._figures)
        if self._own is not None:
            self._own.close()


def _task_counts(tasks: list[TaskMetrics]) -> Iterator[MetricSample]:
    by_connector: dict[str, Counter[str]] = {}
    for task in tasks:
        by_connector.setdefault(task.connector, Counter())[task.state] += 1
    for name, states in sorted(by_connector.items()):
        values = {f"connector-{state}-task-count": float(states[state]) for state in TASK_STATES}
        values["connector-total-task-count"] = float(states.total())
        yield MetricSample(_WORKER_GROUP, {"connector": name}, values)
