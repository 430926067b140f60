"""What a worker has figures of: Kafka's groups `connect-worker-metrics` (the worker's own, and one
for each connector that has tasks here), `connector-metrics` and `app-info`."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from connect.clock import SYSTEM_CLOCK, Clock
from connect.metrics.registry import MetricRegistry, MetricSample, MetricValue
from connect.metrics.sensors import Outcomes
from connect.metrics.task_metrics import TaskMetrics

__all__ = ["TASK_STATES", "HostedTask", "WorkerMetrics"]

_WORKER_GROUP = "connect-worker-metrics"
_CONNECTOR_GROUP = "connector-metrics"
_APP_INFO_GROUP = "app-info"

# A description may come some time before the connector's first status.
_FORGET_S = 600.0

TASK_STATES = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")
"""Those whose tasks are counted for each connector."""


class _Startups:
    """Attempts to start connectors, or tasks. Guarded by the owner's lock."""

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
    """Safe to use from any thread. Shown in `registry` between `show` and `hide`.

    `statuses`: the connectors that are on this worker and their states, in lower case; asked when
    somebody reads.
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
        """Those of its tasks, too."""
        if self._remove is not None:
            self._remove()
        with self._lock:
            tasks = list(self._tasks)
        for task in tasks:
            self.remove_task(task)

    def connector_started(self, success: bool) -> None:
        """A connector has started, or failed to."""
        with self._lock:
            self._connector_startups.record(success, self._clock.now_ms())

    def task_started(self, success: bool) -> None:
        """A task has started, or failed to."""
        with self._lock:
            self._task_startups.record(success, self._clock.now_ms())

    def describe_connector(self, name: str, about: Mapping[str, str]) -> None:
        """What it is: `connector-class`, `connector-type`, `connector-version`. Forgotten by itself
        some time after the connector is gone."""
        with self._lock:
            self._connectors[name] = (self._clock.monotonic(), dict(about))

    def add_task(self, task: TaskMetrics) -> None:
        """The worker runs this task from now on."""
        remove = task.register(self._registry)
        with self._lock:
            self._tasks[task] = remove

    def remove_task(self, task: TaskMetrics) -> None:
        """The task is gone. May be called again."""
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
    """What the host of one task tells about it: its start, its states, its end. Safe to use from
    any thread."""

    def __init__(self, worker: WorkerMetrics, figures: TaskMetrics) -> None:
        self._worker = worker
        self._figures = figures
        self._start_decided = False

    def begun(self) -> None:
        """Its thread starts: from now on it is shown."""
        self._worker.add_task(self._figures)

    def state_changed(self, state: str) -> None:
        """It is in this state now, in lower case. The first one tells how its start went."""
        self._figures.state_changed(state)
        if not self._start_decided and state in ("running", "paused", "failed"):
            self._start_decided = True
            self._worker.task_started(state != "failed")

    def ended(self) -> None:
        """The worker has let go of it: it is not shown any more. May be called again."""
        self._worker.remove_task(self._figures)


def _task_counts(tasks: list[TaskMetrics]) -> Iterator[MetricSample]:
    by_connector: dict[str, Counter[str]] = {}
    for task in tasks:
        by_connector.setdefault(task.connector, Counter())[task.state] += 1
    for name, states in sorted(by_connector.items()):
        values = {f"connector-{state}-task-count": float(states[state]) for state in TASK_STATES}
        values["connector-total-task-count"] = float(states.total())
        yield MetricSample(_WORKER_GROUP, {"connector": name}, values)
