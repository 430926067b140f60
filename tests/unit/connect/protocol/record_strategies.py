"""Random batches with the records that a consumer must see, for property tests."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from connect.protocol.records import Rebatched, Record, iter_records
from tests.support.records.batches import encode_batch

TIME = 1_700_000_000_000

_fields = st.none() | st.binary(max_size=20) | st.binary(min_size=60, max_size=200)
_headers = st.lists(
    st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=5)), max_size=3
).map(tuple)
_timestamps = st.one_of(
    st.integers(TIME, TIME + 200),
    st.integers(TIME - 100_000, TIME + 100_000_000),
    st.just(-1),
    st.integers(-(1 << 63), (1 << 63) - 1),
)


@dataclass(frozen=True)
class Stored:
    """A batch as a broker holds it, and what a consumer sees of it."""

    data: bytes
    records: tuple[Record, ...]


@st.composite
def stored_batches(draw: st.DrawFn, max_batches: int = 6) -> list[Stored]:
    """Batches of one partition in order, with gaps inside and between them, of every codec,
    timestamp type and delete horizon; many with one record, some with none."""
    offset = draw(st.integers(0, 1 << 40))
    batches = []
    for _ in range(draw(st.integers(0, max_batches))):
        offset += draw(st.sampled_from([0, 0, 0, 1, 1000]))
        base_offset = offset
        records = []
        for _ in range(draw(st.one_of(st.just(1), st.integers(0, 8)))):
            offset += draw(st.sampled_from([0, 0, 0, 1, 300, 70_000]))
            fields = draw(_fields), draw(_fields), draw(_headers)
            records.append(Record(offset, draw(_timestamps), *fields))
            offset += 1
        offset += draw(st.sampled_from([0, 0, 5]))
        log_append_time = draw(st.none() | st.just(TIME + 7))
        data = encode_batch(
            records,
            base_offset=base_offset,
            codec=draw(st.integers(0, 4)),
            last_offset_delta=max(offset - 1 - base_offset, 0),
            log_append_time=log_append_time,
            delete_horizon=draw(st.none() | st.none() | st.just(TIME + 86_400_000)),
            leader_epoch=3,
            producer_id=77,
            producer_epoch=1,
            base_sequence=12,
        )
        offset = max(offset, base_offset + 1)
        if log_append_time is not None:
            records = [replace(record, timestamp=log_append_time) for record in records]
        batches.append(Stored(data, tuple(records)))
    return batches


def seen_in(made: list[Rebatched]) -> list[Record]:
    """The records of new batches under their source offsets."""
    seen = []
    for batch in made:
        sources = [first + n for first, count in batch.runs for n in range(count)]
        for source, record in zip(sources, iter_records(batch.data), strict=True):
            seen.append(replace(record, offset=source))
    return seen
