"""Each batch goes the cheapest way its bytes allow, and a corrupt one takes nothing along."""

from __future__ import annotations

import gc
from collections.abc import Sequence

import pytest

from connect.protocol.batches import BatchHeader, read_headers
from connect.protocol.records import Record, iter_records
from connectors.mirror.copy.batches.choice import TINY_RUN_BATCHES, CopyOptions, Way, choose
from connectors.mirror.copy.batches.conversion import Chosen, FetchedRecords, outgoing_batches
from connectors.mirror.copy.memory import FetchBuffer, MemoryBudget
from tests.support.records.batches import encode_batch

GZIP = 1
LIMIT = 1 << 20


def batch(first: int, count: int, **attributes: int | bool) -> bytes:
    records = [Record(first + n, 1_000 + n, b"k", b"%d" % (first + n)) for n in range(count)]
    return encode_batch(records, base_offset=first, **attributes)  # type: ignore[arg-type]


def header(data: bytes) -> BatchHeader:
    return read_headers(memoryview(data))[0]


class Fetched:
    """Batches that arrived in one buffer."""

    def __init__(self, batches: Sequence[bytes]) -> None:
        self.budget = MemoryBudget(1 << 30)
        self.data = bytearray(b"".join(batches))
        self.buffer = FetchBuffer(self.budget, self.data, held=True)

    def chosen(
        self,
        position: int = 0,
        *,
        aborted: Sequence[tuple[int, int]] = (),
        options: CopyOptions | None = None,
        limit: int = 0,
        end: int | None = None,
    ) -> Chosen:
        view = memoryview(self.data)
        return outgoing_batches(
            FetchedRecords(
                view,
                read_headers(view),
                position,
                end,
                limit,
                aborted,
                options or CopyOptions(),
                self.buffer,
                self.budget,
            )
        )

    def release(self, chosen: Chosen) -> None:
        """Every batch leaves, as it does once it is acknowledged."""
        for each in chosen.batches:
            each.buffer.retain()
        self.buffer.release()
        for each in chosen.batches:
            each.buffer.release()


def offsets(chosen: Chosen) -> list[int]:
    return [
        first + n for each in chosen.batches for first, count in each.runs for n in range(count)
    ]


@pytest.mark.parametrize(
    ("data", "position", "limit", "way"),
    [
        (batch(0, 100), 0, LIMIT, Way.SHALLOW),
        (batch(0, 100, transactional=True, producer_id=7), 0, LIMIT, Way.SHALLOW),
        (batch(0, 100), 1, LIMIT, Way.RECORDS),
        (batch(0, 100), 0, 200, Way.RECORDS),
        (batch(0, 100, last_offset_delta=120), 0, LIMIT, Way.RECORDS),
        (batch(0, 100, log_append_time=5), 0, LIMIT, Way.RECORDS),
        (batch(0, 100, delete_horizon=5), 0, LIMIT, Way.RECORDS),
    ],
)
def test_the_way_of_a_batch(data: bytes, position: int, limit: int, way: Way) -> None:
    assert choose(header(data), position, limit, CopyOptions()) is way


def test_another_codec_recompresses_only_batches_that_have_it_not() -> None:
    options = CopyOptions(codec=GZIP)
    assert choose(header(batch(0, 9)), 0, LIMIT, options) is Way.RECOMPRESS
    assert choose(header(batch(0, 9, codec=GZIP)), 0, LIMIT, options) is Way.SHALLOW


def test_shallow_batches_are_slices_of_what_was_fetched() -> None:
    fetched = Fetched([batch(0, 10), batch(10, 20)])
    chosen = fetched.chosen()
    assert [b.resume for b in chosen.batches] == [10, 30]
    assert all(b.shallow and b.data.obj is fetched.data for b in chosen.batches)
    fetched.release(chosen)
    assert fetched.budget.used == 0


@pytest.mark.parametrize("count", [TINY_RUN_BATCHES - 1, TINY_RUN_BATCHES])
def test_a_run_of_tiny_batches_is_merged(count: int) -> None:
    fetched = Fetched([batch(n, 1) for n in range(count)])
    chosen = fetched.chosen()
    assert offsets(chosen) == list(range(count))
    assert len(chosen.batches) == (1 if count >= TINY_RUN_BATCHES else count)
    fetched.release(chosen)
    assert fetched.budget.used == 0


def test_control_and_aborted_batches_are_dropped_and_passed() -> None:
    abort, commit = b"\x00\x00\x00\x00", b"\x00\x00\x00\x01"

    def marker(offset: int, producer: int, key: bytes) -> bytes:
        record = Record(offset, 1_000, key, b"\x00\x00\x00\x00\x00\x00")
        return encode_batch(
            [record], base_offset=offset, control=True, transactional=True, producer_id=producer
        )

    fetched = Fetched(
        [
            batch(0, 10, transactional=True, producer_id=1),
            batch(10, 10, transactional=True, producer_id=2),
            marker(20, 1, abort),
            marker(21, 2, commit),
            batch(22, 10, transactional=True, producer_id=1),
            marker(32, 1, commit),
        ]
    )
    committed = CopyOptions(read_committed=True)
    chosen = fetched.chosen(aborted=[(1, 0)], options=committed)
    assert offsets(chosen) == [*range(10, 20), *range(22, 32)]
    assert offsets(fetched.chosen()) == [*range(20), *range(22, 32)]


@pytest.mark.parametrize("bad", [0, 1, 5])
@pytest.mark.parametrize("codec", [None, GZIP], ids=["shallow", "recompressed"])
@pytest.mark.parametrize("size", [1, 20], ids=["tiny", "batches"])
def test_what_comes_before_a_corrupt_batch_is_copied(
    bad: int, codec: int | None, size: int
) -> None:
    batches = [bytearray(batch(n * size, size)) for n in range(6)]
    batches[bad][-1] ^= 1
    fetched = Fetched([bytes(each) for each in batches])
    chosen = fetched.chosen(options=CopyOptions(codec=codec))
    assert offsets(chosen) == list(range(bad * size))
    assert chosen.unreadable is not None
    at, reason, _, _ = chosen.unreadable
    assert at == bad * size
    assert f"source offset {at} is corrupt" in reason
    fetched.release(chosen)
    assert fetched.budget.used == 0


@pytest.mark.parametrize("size", [1, 20], ids=["tiny", "batches"])
def test_records_that_do_not_parse_cost_no_memory(size: int) -> None:
    """Their CRC is right, so that only the way by records notices."""
    batches = [batch(n * size, size, codec=GZIP) for n in range(6)]
    broken = bytearray(batches[3])
    broken[61:] = bytes(len(broken) - 61)
    batches[3] = bytes(broken)
    fetched = Fetched(batches)
    chosen = fetched.chosen(options=CopyOptions(codec=0, check_crcs=False))
    assert offsets(chosen) == list(range(3 * size))
    assert chosen.unreadable is not None
    assert chosen.unreadable.position == 3 * size
    fetched.release(chosen)
    assert fetched.budget.used == 0


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize("end", [10, 11, 15, 19, 20])
def test_nothing_at_or_after_the_end_is_copied(end: int, codec: int) -> None:
    fetched = Fetched([batch(0, 10, codec=codec), batch(10, 10, codec=codec)])
    chosen = fetched.chosen(position=3, end=end, limit=LIMIT)
    assert offsets(chosen) == list(range(3, end))
    assert chosen.batches[-1].resume == end
    assert chosen.batches[-1].shallow == (end == 20)
    fetched.release(chosen)


def test_a_batch_above_the_limit_becomes_several() -> None:
    fetched = Fetched([batch(0, 200)])
    chosen = fetched.chosen(limit=500)
    assert offsets(chosen) == list(range(200))
    assert all(len(each.data) <= 500 for each in chosen.batches)
    values = [r.value for each in chosen.batches for r in iter_records(each.data)]
    assert values == [b"%d" % n for n in range(200)]


@pytest.mark.parametrize("options", [CopyOptions(), CopyOptions(codec=GZIP)])
def test_nothing_keeps_the_fetched_bytes_once_the_batches_are_gone(options: CopyOptions) -> None:
    """A cycle of references would keep each response until the next garbage collection."""
    fetched = Fetched([batch(0, 100), *(batch(n, 1) for n in range(100, 120))])
    gc.collect()
    gc.disable()
    try:
        assert offsets(fetched.chosen(options=options)) == list(range(120))
        fetched.data.append(0)  # BufferError while there is a view of it
    finally:
        gc.enable()
