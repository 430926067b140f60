"""Reading the offsets that another tool left in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from connect.errors import ConfigError
from connect.protocol.messages import TopicPartition
from connectors.mirror.inspect.given_offsets import read_offsets_file


def read(directory: Path, text: str) -> dict[TopicPartition, int]:
    file = directory / "offsets"
    file.write_text(text)
    return read_offsets_file(file, source="A")


def answer(*offsets: object) -> str:
    """What Kafka Connect answers to GET /connectors/NAME/offsets."""
    return json.dumps({"offsets": offsets})


def test_lines_of_kafkas_own_tool_are_read(tmp_path: Path) -> None:
    found = read(tmp_path, 'orders,0,120\n"my-group","bills",3,7\n\norders,1,0\n')
    assert found == {("orders", 0): 120, ("bills", 3): 7, ("orders", 1): 0}


@pytest.mark.parametrize("line", ["orders,0", "orders,zero,1", "orders"])
def test_another_line_is_refused_with_its_number(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError, match=r"line 2: .* is not topic,partition,offset"):
        read(tmp_path, f"orders,0,120\n{line}\n")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Cannot read"):
        read_offsets_file(tmp_path / "none.csv", source="A")


def test_a_flow_begins_after_the_last_record_of_replicator(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        answer(
            {"partition": {"topic": "orders", "partition": 0}, "offset": {"offset": 119}},
            {"partition": {"partition": 1, "topic": "orders"}, "offset": {"offset": 0}},
            {"partition": {"topic": "orders", "partition": 2}, "offset": None},
        ),
    )
    assert found == {("orders", 0): 120, ("orders", 1): 1}


def test_a_flow_begins_after_the_last_record_of_mirrormaker_2(tmp_path: Path) -> None:
    partition = {"cluster": "A", "partition": 0, "topic": "orders"}
    text = "\n" + answer({"partition": partition, "offset": {"offset": 119}})
    assert read(tmp_path, text) == {("orders", 0): 120}


@pytest.mark.parametrize(
    ("partition", "offset", "reason"),
    [
        ({"topic": "t", "partition": 0}, {"pos": 3}, "is not its offset"),
        ({"topic": "t", "partition": "0"}, {"offset": 3}, "not of a connector that copies topics"),
        (
            # A checkpoint connector's, whose offsets are no positions.
            {"group": "g", "topic": "t", "partition": 0},
            {"offset": 0},
            "not of a connector that copies topics",
        ),
        ({"filename": "x"}, {"position": 3}, "not of a connector that copies topics"),
        (
            {"kafka_topic": "t", "kafka_partition": 0},
            {"kafka_offset": 3},
            "a sink connector continues at its consumer group",
        ),
        (
            {"cluster": "C", "topic": "t", "partition": 0},
            {"offset": 3},
            "the flow's source cluster is A",
        ),
    ],
)
def test_offsets_of_something_else_are_refused(
    tmp_path: Path, partition: object, offset: object, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        read(tmp_path, answer({"partition": partition, "offset": offset}))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is not JSON"),
        ('{"error_code": 404, "message": "Connector mirror not found"}', 'no list "offsets"'),
        ('{"offsets": [7]}', "7 has no objects"),
    ],
)
def test_another_document_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        read(tmp_path, text)
