"""The rows of a transformed shard lead each record to its copy, by its source offset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import CorruptData, DataError
from connect.plugin import RawRecord
from connect.protocol.batches import read_headers
from connect.protocol.record_codec import Record, encode_tail
from connectors.mirror.copy.batches.choice import CopyOptions
from connectors.mirror.copy.batches.conversion import FetchedRecords
from connectors.mirror.copy.batches.outgoing import Outgoing
from connectors.mirror.copy.batches.transformed import transformed_batches
from connectors.mirror.copy.memory import FetchBuffer, MemoryBudget
from connectors.mirror.copy.range_copier import SourceRange
from connectors.mirror.spark.transform.records import (
    COLUMNS,
    RecordRows,
    TransformedRows,
    not_known,
)
from tests.support.records.record_sets import SourceLog, copied_records, source_logs

KEY = ("orders", 3)
BUDGET = MemoryBudget(1 << 30)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
KINDS = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS,
}


def shard(start: int, end: int) -> list[SourceRange]:
    return [SourceRange(KEY, ("A.orders", 3), start, end)]


def rows_of(records: Sequence[Record]) -> pa.RecordBatch:
    """The records as the reader of a shard gives them."""
    rows = RecordRows(KEY)
    for each in records:
        rows.add(each.offset, each.timestamp, encode_tail(each.key, each.value, each.headers))
    return rows.to_arrow()


def returned(*rows: dict[str, object]) -> pa.RecordBatch:
    """Rows as a transformation returns them, with the columns of the first one."""
    given = [{"topic": KEY[0], "partition": KEY[1], **row} for row in rows]
    names = [name for name in COLUMNS if name in given[0]]
    columns = [pa.array([row[name] for row in given], KINDS[name]) for name in names]
    return pa.RecordBatch.from_arrays(columns, names)


def changed(batch: pa.RecordBatch, record: RawRecord, offset: int = 7) -> RawRecord | None:
    found = TransformedRows(shard(0, 10))
    found.take(batch)
    return found.changes()[KEY](offset, record)


RECORD = RawRecord(1_700_000_000_123, b"k", b"v", (("h", b"1"),))


@given(source_logs(), st.data())
def test_copies_are_the_records_that_came_back_under_their_offsets(
    log: SourceLog, data: st.DataObject
) -> None:
    """In any order, and with any of them left out."""
    records = log.records(0, log.end, committed=False)
    count = len(records)
    stays = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    some = [each for each, stay in zip(records, stays, strict=True) if stay]
    kept = data.draw(st.permutations(some))
    upper = [replace(each, value=None if each.value is None else each.value[::-1]) for each in kept]
    rows = TransformedRows(shard(0, log.end))
    rows.take(rows_of(upper))

    batches: list[Outgoing] = []
    position = dropped = 0
    while position < log.end:
        content, aborted = log.fetch(position, 1 << 30)
        copied = bytearray(content)
        view = memoryview(copied)
        headers = read_headers(view)
        buffer = FetchBuffer(BUDGET, copied)
        chosen = transformed_batches(
            FetchedRecords(
                view, headers, position, None, 300, aborted, CopyOptions(), buffer, BUDGET
            ),
            rows.changes()[KEY],
        )
        batches += chosen.batches
        dropped += chosen.dropped
        position = max(position, headers[-1].next_offset)
    assert copied_records(batches) == sorted(upper, key=lambda each: each.offset)
    assert dropped == len(records) - len(kept)


def test_columns_that_do_not_come_back_stay_as_they_are() -> None:
    assert changed(returned({"offset": 7}), RECORD) == RECORD
    assert changed(returned({"offset": 7, "value": b"new"}), RECORD) == RECORD._replace(
        value=b"new"
    )
    assert changed(returned({"offset": 7, "key": None}), RECORD) == RECORD._replace(key=None)
    assert changed(returned({"offset": 7, "headers": None}), RECORD) == RECORD._replace(headers=())
    twice = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert changed(returned({"offset": 7, "headers": twice}), RECORD) == RECORD._replace(
        headers=(("h", b"1"), ("h", None))
    )


def test_a_timestamp_is_kept_to_the_millisecond_unless_it_is_null() -> None:
    moved = returned({"offset": 7, "timestamp": 1_700_000_000_999_500})
    assert changed(moved, RECORD) == RECORD._replace(timestamp_ms=1_700_000_000_999)
    assert changed(returned({"offset": 7, "timestamp": None}), RECORD) == RECORD


@pytest.mark.parametrize("timestamp_ms", [-1, (1 << 63) - 1])
def test_a_timestamp_that_spark_cannot_represent_is_null_and_stays(timestamp_ms: int) -> None:
    record = RECORD._replace(timestamp_ms=timestamp_ms)
    batch = rows_of([Record(7, timestamp_ms, b"k", b"v", (("h", b"1"),))])
    assert batch.column("timestamp").to_pylist() == [None]
    assert changed(batch, record) == record


def test_a_record_without_a_row_is_left_out() -> None:
    assert changed(returned({"offset": 6}), RECORD) is None


def test_two_rows_of_one_record_stop_its_partition_there() -> None:
    batch = returned({"offset": 7}, {"offset": 7}, {"offset": 8})
    assert changed(batch, RECORD, 8) == RECORD
    with pytest.raises(DataError, match="more than one row for offset 7 of orders-3"):
        changed(batch, RECORD)


@pytest.mark.parametrize(
    "row",
    [
        {"offset": 10},
        {"offset": -1},
        {"offset": None},
        {"offset": 7, "partition": 4},
        {"offset": 7, "topic": "A.orders"},
        {"offset": 7, "topic": None},
    ],
)
def test_a_row_that_is_no_record_of_the_shard_is_refused(row: dict[str, object]) -> None:
    with pytest.raises(DataError, match="it got no such record"):
        TransformedRows(shard(0, 10)).take(returned(row))


@pytest.mark.parametrize("header", [None, {"key": None, "value": b"1"}])
def test_a_header_needs_a_key(header: object) -> None:
    with pytest.raises(DataError, match="a header without a key for offset 7"):
        changed(returned({"offset": 7, "headers": [header]}), RECORD)


def test_a_header_that_is_not_utf_8_cannot_become_a_row() -> None:
    tail = encode_tail(None, b"v", [("\udcff", b"1")])
    with pytest.raises(CorruptData, match=r"mirror\.transform\.topics"):
        RecordRows(KEY).add(7, 0, tail)


def test_records_that_came_after_the_plan_wait_for_the_next_shard() -> None:
    with pytest.raises(DataError, match="the next shard gets it"):
        not_known(KEY)(7, RECORD)
