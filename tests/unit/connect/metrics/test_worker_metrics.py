"""Figures of a worker: how starts went, what runs, and how tasks of each connector do."""

from __future__ import annotations

from collections.abc import Mapping

from connect.metrics.registry import MetricRegistry, MetricValue
from connect.metrics.task_metrics import TaskMetrics
from connect.metrics.worker_metrics import HostedTask, WorkerMetrics
from tests.support.fake_clock import FakeClock


class Bench:
    def __init__(self) -> None:
        self.clock = FakeClock(5_000)
        self.registry = MetricRegistry()
        self.statuses: dict[str, str] = {}
        self.worker = WorkerMetrics("w1", "4.3.1", self.registry, lambda: self.statuses, self.clock)
        self.worker.show()

    def task(self, connector: str, number: int) -> HostedTask:
        task = HostedTask(self.worker, TaskMetrics(connector, number, self.clock))
        task.begun()
        return task

    def values(self, group: str, **tags: str) -> Mapping[str, MetricValue] | None:
        found = [s for s in self.registry.collect() if (s.group, s.tags) == (group, tags)]
        return found[0].values if found else None


def test_starts_are_counted_and_their_success_is_a_share_of_the_last_minute() -> None:
    bench = Bench()
    bench.worker.connector_started(True)
    bench.worker.connector_started(False)
    values = bench.values("connect-worker-metrics")
    assert values is not None
    assert values["connector-startup-attempts-total"] == 2
    assert values["connector-startup-success-total"] == 1
    assert values["connector-startup-failure-total"] == 1
    assert values["connector-startup-success-percentage"] == 0.5
    assert values["task-startup-attempts-total"] == 0

    bench.clock.advance(120)
    values = bench.values("connect-worker-metrics")
    assert values is not None
    assert values["connector-startup-success-percentage"] == 0
    assert values["connector-startup-attempts-total"] == 2


def test_a_task_s_first_state_tells_how_its_start_went_and_later_ones_do_not() -> None:
    bench = Bench()
    good, paused, bad = (bench.task("c", number) for number in range(3))
    good.state_changed("running")
    good.state_changed("failed")
    paused.state_changed("paused")
    bad.state_changed("failed")

    values = bench.values("connect-worker-metrics")
    assert values is not None
    assert values["task-startup-success-total"] == 2
    assert values["task-startup-failure-total"] == 1
    assert values["task-count"] == 3


def test_tasks_of_a_connector_are_counted_by_state_until_they_are_let_go() -> None:
    bench = Bench()
    first, second = bench.task("c", 0), bench.task("c", 1)
    bench.task("other", 0).state_changed("paused")
    first.state_changed("running")

    assert bench.values("connect-worker-metrics", connector="c") == {
        "connector-total-task-count": 2,
        "connector-running-task-count": 1,
        "connector-paused-task-count": 0,
        "connector-failed-task-count": 0,
        "connector-unassigned-task-count": 1,
        "connector-destroyed-task-count": 0,
        "connector-restarting-task-count": 0,
    }
    first.ended()
    first.ended()
    second.state_changed("failed")
    assert bench.values("connector-task-metrics", connector="c", task="0") is None
    values = bench.values("connector-task-metrics", connector="c", task="1")
    assert values is not None
    assert values["status"] == "failed"
    second.ended()
    assert bench.values("connect-worker-metrics", connector="c") is None


def test_connectors_are_shown_with_what_they_are_as_long_as_they_have_a_status() -> None:
    bench = Bench()
    bench.worker.describe_connector("c", {"connector-class": "X", "connector-type": "sink"})
    assert bench.values("connector-metrics", connector="c") is None

    bench.statuses = {"c": "paused"}
    assert bench.values("connector-metrics", connector="c") == {
        "connector-class": "X",
        "connector-type": "sink",
        "status": "paused",
    }
    values = bench.values("connect-worker-metrics")
    assert values is not None
    assert values["connector-count"] == 1

    bench.statuses = {}
    assert bench.values("connector-metrics", connector="c") is None


def test_what_a_connector_was_is_forgotten_some_time_after_it_is_gone() -> None:
    bench = Bench()
    bench.worker.describe_connector("c", {"connector-class": "X"})
    bench.clock.advance(601)
    bench.registry.collect()
    bench.statuses = {"c": "running"}

    assert bench.values("connector-metrics", connector="c") == {"status": "running"}


def test_version_and_start_are_told_until_the_worker_hides_everything() -> None:
    bench = Bench()
    bench.task("c", 0)
    assert bench.values("app-info", **{"client-id": "w1"}) == {
        "version": "4.3.1",
        "start-time-ms": 5_000,
    }

    bench.worker.hide()
    assert len(bench.registry.collect()) == 1
