"""What a source task tells the history of itself."""

from __future__ import annotations

from connectors.mirror.config.source import SourceConfig
from connectors.mirror.history.recorder import TaskHistory, rows_every_s
from connectors.mirror.history.rows import EventRow, FlowTask, HistoryRow
from tests.support.fake_clock import FakeClock

PROPS = {
    "name": "MirrorSourceConnector",
    "connector.class": "MirrorSourceConnector",
    "source.cluster.alias": "a",
    "target.cluster.alias": "b",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
}


class Kept:
    """Keeps the rows."""

    def __init__(self) -> None:
        self.rows: list[tuple[FlowTask, HistoryRow]] = []
        self.closed = False

    def add(self, flow: FlowTask, row: HistoryRow) -> None:
        assert not self.closed
        self.rows.append((flow, row))

    def close(self) -> None:
        self.closed = True


def task(kept: Kept) -> TaskHistory:
    config = SourceConfig.from_properties(PROPS)
    return TaskHistory(config, config.name, 2, FakeClock(), lambda url, days: kept)


def test_a_task_that_starts_here_and_stops_leaves_two_events_of_its_flow() -> None:
    kept = Kept()
    history = task(kept)
    history.started(120, tasks=3)
    history.close()

    assert kept.closed
    assert {flow for flow, _ in kept.rows} == {FlowTask("MirrorSourceConnector", 2, "a", "b")}
    events = [row for _, row in kept.rows if isinstance(row, EventRow)]
    assert [(event.kind, event.text, event.partition) for event in events] == [
        ("task.started", "Task 2 of MirrorSourceConnector started with 120 partitions", -1),
        ("task.stopped", "Task 2 of MirrorSourceConnector stopped", -1),
    ]


def test_a_task_that_could_not_start_has_not_stopped() -> None:
    kept = Kept()
    task(kept).close()

    assert kept.closed
    assert kept.rows == []


def test_flows_of_many_partitions_write_less_often_however_many_tasks_share_them() -> None:
    assert rows_every_s(10, 1) == rows_every_s(200, 10) == 10.0
    assert rows_every_s(10_000, 1) == rows_every_s(1_000, 10) == rows_every_s(100, 100) == 50.0
