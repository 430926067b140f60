"""Records become rows of Parquet and records again, byte for byte."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import CorruptData
from connect.protocol.batches import read_headers
from connect.protocol.record_codec import Record
from connectors.archive.rows import RowBuffer, records_of
from connectors.mirror.compare.batch_runs import WireRun
from tests.support.records.batches import encode_batch

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
CONTENT = st.none() | st.binary(max_size=200)
RECORDS = st.lists(
    st.tuples(
        INT64,
        CONTENT,
        CONTENT,
        st.lists(st.tuples(st.text(max_size=5), CONTENT), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=20,
)


def run_of(records: list[Record], log_append_time: int | None = None) -> WireRun:
    data = encode_batch(
        records,
        base_offset=records[0].offset,
        leader_epoch=7,
        log_append_time=log_append_time,
    )
    view = memoryview(data)
    return WireRun(view, read_headers(view), None, 0, 1 << 62)


def rows_of(run: WireRun) -> pa.RecordBatch:
    buffer = RowBuffer()
    for batch in run:
        found = batch.columns()
        buffer.add(batch, found.offsets, found.timestamps, [bytes(tail) for tail in found.tails])
    return buffer.to_arrow()


def placed(rows: pa.RecordBatch, partition: int = 0) -> pa.RecordBatch:
    """As Spark reads them: the folders' names are columns."""
    plain = {
        **rows.to_pydict(),
        "topic": ["t"] * rows.num_rows,
        "partition": [partition] * rows.num_rows,
    }
    return pa.RecordBatch.from_pydict(plain)


@given(RECORDS)
def test_records_come_back(
    given_: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
) -> None:
    # Deltas of timestamps are 64 bits wide.
    records = [
        Record(5 + 2 * n, stamp // 4, key, value, headers)
        for n, (stamp, key, value, headers) in enumerate(given_)
    ]
    run = run_of(records)
    rows = rows_of(run)
    assert set(rows.to_pydict()["leader_epoch"]) == {7}
    assert set(rows.to_pydict()["timestamp_type"]) == {0}
    (found,) = records_of(placed(rows))
    (batch,) = run
    columns = batch.columns()
    assert (found.topic, found.partition) == ("t", 0)
    assert found.offsets == columns.offsets
    assert found.stamps == columns.timestamps
    assert found.tails == [bytes(tail) for tail in columns.tails]


def test_the_timestamp_of_the_broker_is_told_apart() -> None:
    rows = rows_of(run_of([Record(0, 5, None, None)], log_append_time=99)).to_pydict()
    assert (rows["timestamp_ms"], rows["timestamp_type"]) == ([99], [1])


def test_rows_of_several_partitions_are_told_apart() -> None:
    one, other = (placed(rows_of(run_of([Record(3, 5, b"k", b"v")])), n) for n in (0, 1))
    (table,) = pa.Table.from_batches([one, other]).combine_chunks().to_batches()
    assert [(found.partition, found.offsets) for found in records_of(table)] == [
        (0, [3]),
        (1, [3]),
    ]


def test_a_header_that_parquet_cannot_keep_is_named() -> None:
    run = run_of([Record(4, 5, None, None, (("\udcff", b""),))])
    with pytest.raises(CorruptData, match="at offset 4 has a header whose key is not UTF-8"):
        rows_of(run)
