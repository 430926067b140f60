"""Metrics of a plugin's own: there while it runs, and gone with it, though it does not remove them.
On a real broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest

from connect.metrics.registry import MetricValue
from connect.plugin import SourceRecord, SourceTask, TransferTask
from deploy.brokers import KafkaCluster
from tests.support.waiting import wait_until
from tests.support.workers.bench import TIMEOUT_S, Bench
from tests.support.workers.plugins import LaneConnector, RecordLaneTask

GROUP = "plugins"


class CountingTask(RecordLaneTask):
    """Counts its records."""

    def start(self, config: Mapping[str, str]) -> None:
        super().start(config)
        self._records = 0
        tags = {
            "connector": self.context.connector_name,
            "task": str(self.context.task_index),
        }
        self.context.metrics.register(GROUP, tags, lambda: {"records": self._records})

    def poll(self) -> Sequence[SourceRecord] | None:
        records = super().poll()
        self._records += len(records or ())
        return records


class CountingConnector(LaneConnector):
    """Has a metric, too."""

    def start(self, config: Mapping[str, str]) -> None:
        super().start(config)
        tags = {"connector": self.context.connector_name}
        self.context.metrics.register(GROUP, tags, lambda: {"answer": 42})

    def task_class(self) -> type[SourceTask] | type[TransferTask]:
        return CountingTask


@pytest.fixture
def bench(target_cluster: KafkaCluster) -> Iterator[Bench]:
    bench = Bench(target_cluster)
    bench.plugins.register(CountingConnector)
    yield bench
    bench.close()


def test_metrics_of_a_connector_and_its_task_are_there_until_it_is_deleted(bench: Bench) -> None:
    def found() -> dict[tuple[str, ...], Mapping[str, MetricValue]]:
        samples = bench.metrics.collect(GROUP)
        return {tuple(sample.tags.values()): sample.values for sample in samples}

    for _ in range(2):
        bench.put("Counting", count="3")
        wait_until(lambda: ("lanes", "0") in found(), TIMEOUT_S, "metrics of the task")
        assert found()[("lanes",)] == {"answer": 42}
        bench.arrived("a:2")
        bench.herder.delete_connector("lanes")
        wait_until(lambda: not found(), TIMEOUT_S, "the end of the metrics")
