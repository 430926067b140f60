"""Figures of a worker's membership in its group, and of its group's rebalances."""

from __future__ import annotations

import math

import pytest

from connect.metrics.coordinator_metrics import CoordinatorMetrics
from connect.metrics.rebalance_metrics import RebalanceMetrics
from connect.metrics.registry import MetricRegistry
from tests.support.fake_clock import FakeClock


def test_before_the_first_rebalance_the_last_one_is_infinitely_long_ago() -> None:
    values = RebalanceMetrics(FakeClock()).read()

    assert values["time-since-last-rebalance-ms"] == math.inf
    assert values["completed-rebalances-total"] == 0
    assert values["rebalancing"] == 0
    assert math.isnan(float(values["rebalance-avg-time-ms"]))


def test_a_rebalance_is_shown_while_it_runs_and_measured_from_its_first_start() -> None:
    clock = FakeClock()
    metrics = RebalanceMetrics(clock)
    metrics.started(clock.now_ms())
    clock.advance(1)
    metrics.started(clock.now_ms())
    assert metrics.read()["rebalancing"] == 1

    clock.advance(2)
    metrics.completed(clock.now_ms(), 7, "http://w1:8083/", "sessioned")
    clock.advance(0.5)

    assert metrics.read() == {
        "leader-name": "http://w1:8083/",
        "connect-protocol": "SESSIONED",
        "epoch": 7,
        "completed-rebalances-total": 1,
        "rebalancing": 0,
        "rebalance-max-time-ms": 3000,
        "rebalance-avg-time-ms": 3000,
        "time-since-last-rebalance-ms": 500,
    }


def test_rebalances_are_one_group_without_tags() -> None:
    registry = MetricRegistry()
    remove = RebalanceMetrics().register(registry)

    sample = registry.collect()[0]
    assert (sample.group, sample.tags) == ("connect-worker-rebalance-metrics", {})
    remove()
    assert len(registry.collect()) == 1


def test_what_has_not_happened_yet_was_minus_one_seconds_ago() -> None:
    values = CoordinatorMetrics(FakeClock()).read(0, 0)

    assert values["last-heartbeat-seconds-ago"] == values["last-rebalance-seconds-ago"] == -1
    assert values["join-total"] == values["failed-rebalance-total"] == 0
    assert math.isnan(values["join-time-avg"])


def test_a_member_s_requests_and_rebalances() -> None:
    clock = FakeClock()
    metrics = CoordinatorMetrics(clock)
    metrics.rebalance_begun()
    clock.advance(1)
    metrics.rebalance_failed()
    metrics.rebalance_begun()
    clock.advance(2)
    metrics.joined(40)
    metrics.joined(60)
    metrics.synced(5)
    metrics.rebalance_completed()
    metrics.heartbeat_sent()
    metrics.heartbeat_answered(3)
    clock.advance(4.9)
    values = metrics.read(2, 9)

    assert values["join-total"] == 2
    assert values["join-time-max"] == 60
    assert values["join-time-avg"] == 50
    assert values["sync-total"] == 1
    assert values["rebalance-total"] == 1
    assert values["rebalance-latency-total"] == values["rebalance-latency-max"] == 3000
    assert values["rebalance-rate-per-hour"] == pytest.approx(3600 / 34.9)
    assert values["failed-rebalance-total"] == 1
    assert values["heartbeat-total"] == 1
    assert values["heartbeat-response-time-max"] == 3
    assert values["last-heartbeat-seconds-ago"] == values["last-rebalance-seconds-ago"] == 4
    assert (values["assigned-connectors"], values["assigned-tasks"]) == (2, 9)
