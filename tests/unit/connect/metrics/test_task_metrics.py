"""Figures of tasks: states and their shares of time, commits, batches, and who shows them."""

from __future__ import annotations

import math

import pytest

from connect.metrics.registry import MetricRegistry, MetricSample
from connect.metrics.sink_task_metrics import SinkTaskMetrics
from connect.metrics.source_task_metrics import SourceTaskMetrics, SourceTotals
from connect.metrics.task_metrics import PluginAlias, TaskMetrics
from tests.support.fake_clock import FakeClock


def of_group(registry: MetricRegistry, group: str) -> list[MetricSample]:
    return [sample for sample in registry.collect() if sample.group == group]


def test_shares_of_time_are_of_all_time_since_the_task_was_made() -> None:
    clock = FakeClock()
    task = TaskMetrics("c", 0, clock)
    assert task.read()["status"] == "unassigned"
    assert task.read()["running-ratio"] == 0

    clock.advance(1)
    task.state_changed("running")
    clock.advance(5)
    task.state_changed("paused")
    clock.advance(2)
    task.state_changed("running")
    clock.advance(2)

    assert task.read()["running-ratio"] == pytest.approx(0.7)
    assert task.read()["pause-ratio"] == pytest.approx(0.2)
    assert task.read()["status"] == task.state == "running"


def test_times_of_commits_are_those_that_succeeded() -> None:
    task = TaskMetrics("c", 0, FakeClock())
    assert math.isnan(float(task.read()["offset-commit-avg-time-ms"]))
    assert task.read()["offset-commit-success-percentage"] == 0
    assert task.read()["offset-commit-failure-percentage"] == 0

    task.committed(10, success=True)
    task.committed(20, success=True)
    task.committed(30, success=True)
    task.committed(900, success=False)

    values = task.read()
    assert values["offset-commit-avg-time-ms"] == 20
    assert values["offset-commit-max-time-ms"] == 30
    assert values["offset-commit-success-percentage"] == 0.75
    assert values["offset-commit-failure-percentage"] == 0.25


def test_batches_have_a_greatest_and_a_mean_size() -> None:
    task = TaskMetrics("c", 0, FakeClock())
    for size in (1, 2, 9):
        task.batch(size)

    assert task.read()["batch-size-max"] == 9
    assert task.read()["batch-size-avg"] == 4


def test_all_groups_of_a_task_come_and_go_together() -> None:
    registry = MetricRegistry()
    task = TaskMetrics("c", 3)
    task.describe(
        {"task-class": "T"},
        [PluginAlias("transform", "t", "Cast", "1"), PluginAlias("predicate", "p", "Is", "2")],
    )
    task.add("source-task-metrics", lambda: {"x": 1})
    remove = task.register(registry)
    tags = {"connector": "c", "task": "3"}

    (own,) = of_group(registry, "connector-task-metrics")
    assert own.tags == tags
    assert own.values["task-class"] == "T"
    assert of_group(registry, "source-task-metrics") == [
        MetricSample("source-task-metrics", tags, {"x": 1})
    ]
    assert of_group(registry, "connector-transform-metrics") == [
        MetricSample(
            "connector-transform-metrics",
            {**tags, "transform": "t"},
            {"transform-class": "Cast", "transform-version": "1"},
        )
    ]
    assert of_group(registry, "connector-predicate-metrics") == [
        MetricSample(
            "connector-predicate-metrics",
            {**tags, "predicate": "p"},
            {"predicate-class": "Is", "predicate-version": "2"},
        )
    ]

    remove()
    remove()
    assert len(registry.collect()) == 1


def test_a_source_task_s_rates_and_active_records_follow_its_totals() -> None:
    clock = FakeClock()
    totals = SourceTotals(0, 0)
    metrics = SourceTaskMetrics(lambda: totals, clock)
    assert math.isnan(metrics.read()["poll-batch-avg-time-ms"])

    totals = SourceTotals(60, 0)
    metrics.polled(8)
    totals = SourceTotals(60, 30, 10)
    metrics.turn()
    metrics.turn()
    values = metrics.read()

    assert values["source-record-poll-total"] == 60
    assert values["source-record-poll-rate"] == pytest.approx(2)
    assert values["source-record-write-total"] == 30
    assert values["source-record-write-rate"] == pytest.approx(1)
    assert values["source-record-active-count"] == 20
    assert values["source-record-active-count-max"] == 60
    assert values["source-record-active-count-avg"] == 40
    assert values["poll-batch-max-time-ms"] == values["poll-batch-avg-time-ms"] == 8
    assert "transaction-size-avg" not in values


def test_sizes_of_transactions_are_told_by_tasks_that_write_in_them() -> None:
    metrics = SourceTaskMetrics(lambda: SourceTotals(0, 0), FakeClock(), transactions=True)
    metrics.transaction(10)
    metrics.transaction(20)
    values = metrics.read()

    assert [values[f"transaction-size-{name}"] for name in ("min", "max", "avg")] == [10, 20, 15]


def test_a_sink_task_counts_what_came_what_it_took_and_its_commits() -> None:
    commits = (0, 0, 0)
    metrics = SinkTaskMetrics(lambda: commits, FakeClock())
    metrics.read(30)
    metrics.read(0)
    metrics.turn(2, 30)
    metrics.put(27, 4)
    commits = (4, 3, 1)
    metrics.turn(2, 0)
    metrics.turn(2, 0)
    values = metrics.read_all()

    assert values["partition-count"] == 2
    assert values["sink-record-read-total"] == 30
    assert values["sink-record-read-rate"] == pytest.approx(1)
    assert values["sink-record-send-total"] == 27
    assert values["sink-record-active-count"] == 0
    assert values["sink-record-active-count-max"] == 30
    assert values["put-batch-max-time-ms"] == 4
    assert values["offset-commit-seq-no"] == 4
    assert values["offset-commit-completion-total"] == 3
    assert values["offset-commit-completion-rate"] == pytest.approx(0.1)
    assert values["offset-commit-skip-total"] == 1
    assert values["offset-commit-skip-rate"] == pytest.approx(1 / 30)
