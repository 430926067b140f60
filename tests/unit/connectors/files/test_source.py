"""What the file source gives and where it resumes, without a broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from connect.errors import ConfigError, ConnectError
from connect.metrics.registry import MetricRegistry
from connect.plugin import (
    AlteredOffset,
    RecordTransforms,
    SourceOffset,
    SourcePartition,
    TransactionContext,
    TransferTransactions,
)
from connectors.files.source import FileStreamSourceConnector, FileStreamSourceTask


class Offsets:
    """The `TaskContext` of a task whose offset is known."""

    connector_name = "lines"
    task_index = 0
    worker_id = "w1"
    metrics = MetricRegistry()

    def __init__(self, offset: SourceOffset | None = None) -> None:
        self.offset = offset
        self.asked: list[SourcePartition] = []

    def stored_offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        self.asked += partitions
        return [self.offset]

    def offset_marks(self, partitions: Sequence[SourcePartition]) -> list[int]:
        raise AssertionError(partitions)

    transactions: TransactionContext | None = None
    transfer: TransferTransactions | None = None
    transforms: RecordTransforms | None = None

    def request_commit(self) -> None:
        raise AssertionError("not a transfer task")

    def topic_used(self, topic: str) -> None:
        raise AssertionError(topic)

    def producer_properties(self) -> Mapping[str, str]:
        return {}


def task(file: Path, offset: SourceOffset | None = None, batch: int = 2000) -> FileStreamSourceTask:
    made = FileStreamSourceTask()
    made.initialize(Offsets(offset))
    made.start({"file": str(file), "topic": "t", "batch.size": str(batch)})
    # A test never waits for more to come.
    made.stopping()
    return made


def test_each_line_is_a_record_with_the_position_behind_it(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("one\ntwö\nrest")
    records = task(file).poll()
    assert records is not None
    assert [(r.topic, r.key, r.value) for r in records] == [("t", None, "one"), ("t", None, "twö")]
    assert [dict(r.source_partition) for r in records] == [{"filename": str(file)}] * 2
    assert [dict(r.source_offset) for r in records] == [{"position": 4}, {"position": 9}]


def test_it_goes_on_at_the_stored_position(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("one\ntwo\n")
    records = task(file, {"position": 4}).poll()
    assert records is not None
    assert [(r.value, r.source_offset["position"]) for r in records] == [("two", 8)]


def test_no_more_than_a_batch_is_given_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("1\n2\n3\n")
    reading = task(file, batch=2)
    sizes = [len(reading.poll() or ()) for _ in range(3)]
    assert sizes == [2, 1, 0]


def test_a_file_that_comes_later_is_read(tmp_path: Path) -> None:
    file = tmp_path / "later"
    reading = task(file)
    assert reading.poll() is None
    file.write_text("here\n")
    assert [record.value for record in reading.poll() or ()] == ["here"]
    reading.stop()


def test_a_topic_is_needed() -> None:
    with pytest.raises(ConfigError, match="topic"):
        FileStreamSourceConnector().start({"file": "f"})


@pytest.mark.parametrize(
    ("offset", "allowed"),
    [
        (({"filename": "f"}, {"position": 0}), True),
        (({"filename": "f"}, None), True),
        ((None, None), True),
        (({"other": 1}, None), True),
        ((None, {"position": 1}), False),
        (({"other": "f"}, {"position": 1}), False),
        (({"filename": "f"}, {"position": -1}), False),
        (({"filename": "f"}, {"position": "1"}), False),
        (({"filename": "f"}, {"position": True}), False),
        (({"filename": "f"}, {}), False),
    ],
)
def test_offsets_are_checked_before_they_are_changed(offset: AlteredOffset, allowed: bool) -> None:
    config = {"file": "f", "topic": "t"}
    if allowed:
        assert FileStreamSourceConnector.alter_offsets(config, [offset])
    else:
        with pytest.raises(ConnectError):
            FileStreamSourceConnector.alter_offsets(config, [offset])


def test_the_standard_input_has_no_offsets_to_change() -> None:
    with pytest.raises(ConnectError, match="file"):
        FileStreamSourceConnector.alter_offsets({"topic": "t"}, [])
