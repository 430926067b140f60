"""How users write the offsets of sinks."""

from __future__ import annotations

from typing import Any

import pytest

from connect.runtime.errors import BadRequest
from connect.runtime.rest_entities import OffsetEntry
from connect.runtime.sink.group_offsets import (
    SinkOffsetChange,
    parse_sink_offsets,
    sink_offset_entry,
)

AT: dict[str, Any] = {"kafka_topic": "t", "kafka_partition": 1}


def test_numbers_may_be_numbers_or_texts_and_null_deletes() -> None:
    entries = [
        OffsetEntry(AT, {"kafka_offset": 5}),
        OffsetEntry({"kafka_topic": "t", "kafka_partition": "2"}, {"kafka_offset": "6"}),
        OffsetEntry({"kafka_topic": "u", "kafka_partition": 0}, None),
    ]
    assert parse_sink_offsets(entries) == [
        SinkOffsetChange("t", 1, 5),
        SinkOffsetChange("t", 2, 6),
        SinkOffsetChange("u", 0, None),
    ]


def test_what_is_read_can_be_written() -> None:
    entry = sink_offset_entry("t", 1, 5)
    assert entry == OffsetEntry(AT, {"kafka_offset": 5})
    assert parse_sink_offsets([entry]) == [SinkOffsetChange("t", 1, 5)]


@pytest.mark.parametrize(
    ("partition", "offset", "message"),
    [
        (None, None, "cannot be null or missing"),
        ({"kafka_topic": "t"}, None, "must contain the keys 'kafka_topic' and 'kafka_partition'"),
        ({"topic": "t", "partition": 1}, None, "must contain the keys"),
        ({**AT, "kafka_partition": "x"}, None, "Partition values .* need to be integers"),
        ({**AT, "kafka_partition": True}, None, "Invalid value True for"),
        ({**AT, "kafka_partition": -1}, None, "at least 0"),
        (AT, {}, "contain the key 'kafka_offset'"),
        (AT, {"kafka_offset": "1.5"}, "Offset values .* need to be integers"),
        (AT, {"kafka_offset": 1.5}, "Invalid value 1.5 for"),
    ],
)
def test_what_is_wrong_is_told(partition: Any, offset: Any, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        parse_sink_offsets([OffsetEntry(partition, offset)])
