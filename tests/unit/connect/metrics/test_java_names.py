"""Each group has the attributes of Java's (tests/golden/connect_metrics), no more, no less."""

from __future__ import annotations

import pytest

from connect.metrics.catalogue import describe
from connect.metrics.coordinator_metrics import COORDINATOR_GROUP, CoordinatorMetrics
from connect.metrics.rebalance_metrics import REBALANCE_GROUP, RebalanceMetrics
from connect.metrics.sink_task_metrics import SINK_TASK_GROUP, SinkTaskMetrics
from connect.metrics.source_task_metrics import SOURCE_TASK_GROUP, SourceTaskMetrics, SourceTotals
from tests.support.workers.java_metrics import attributes_of, java_samples

TASK = ("connector", "task")
# Of Java's network client and its own registry, which we do not have.
NOT_OURS = {"connect-metrics", "connect-node-metrics", "kafka-metrics-count"}


def totals() -> SourceTotals:
    return SourceTotals(0, 0)


def test_groups_of_a_worker_s_membership() -> None:
    assert RebalanceMetrics().read().keys() == attributes_of(REBALANCE_GROUP)
    assert CoordinatorMetrics().read(0, 0).keys() == attributes_of(COORDINATOR_GROUP, "client-id")


@pytest.mark.parametrize("run", ["at least once", "exactly once"])
def test_groups_of_tasks(run: str) -> None:
    source = SourceTaskMetrics(totals, transactions=run == "exactly once")

    assert source.read().keys() == attributes_of(SOURCE_TASK_GROUP, *TASK, run=run)
    sink = SinkTaskMetrics(lambda: (0, 0, 0))
    assert sink.read_all().keys() == attributes_of(SINK_TASK_GROUP, *TASK, run=run)


def test_every_attribute_has_a_help_text_of_its_own() -> None:
    for sample in java_samples("exactly once"):
        if sample.group in NOT_OURS | {"app-info"} or sample.group.startswith("consumer-"):
            continue
        for attribute in sample.values:
            assert not describe(sample.group, attribute).startswith("Attribute "), attribute
