"""Which epoch the record before a position was written in."""

from __future__ import annotations

import struct

from connect.protocol.batches import read_headers
from connect.protocol.records import Record
from connectors.mirror.copy.partition.leader_epochs import LeaderEpochCache
from connectors.mirror.copy.partition.retention_forecast import LossForecast
from tests.support.records.batches import encode_batch


def fetched(*epochs: tuple[int, int]) -> bytes:
    data = bytearray()
    for epoch, first in epochs:
        records = [Record(first + n, 1_000, None, b"v") for n in range(10)]
        batch = bytearray(encode_batch(records, base_offset=first))
        struct.pack_into(">i", batch, 12, epoch)
        data += batch
    return bytes(data)


def see(starts: LeaderEpochCache, *epochs: tuple[int, int]) -> None:
    records = memoryview(fetched(*epochs))
    starts.saw(records, read_headers(records))


def test_each_epoch_begins_where_its_first_batch_does() -> None:
    starts = LeaderEpochCache()
    see(starts, (2, 0), (2, 10), (5, 20))
    see(starts, (5, 30), (6, 40))
    assert starts.starts == ((2, 0), (5, 20), (6, 40))
    assert [starts.before(p) for p in (0, 1, 20, 21, 40, 41, 90)] == [None, 2, 2, 5, 5, 6, 6]


def test_what_was_cut_off_counts_no_more() -> None:
    starts = LeaderEpochCache([(2, 0), (5, 20), (6, 40)])
    starts.cut(30)
    assert starts.before(30) == 5
    see(starts, (7, 30))
    assert starts.starts == ((2, 0), (5, 20), (7, 30))


def test_what_earlier_runs_saw_comes_first() -> None:
    starts = LeaderEpochCache()
    see(starts, (5, 30))
    starts.precede([(2, 0), (5, 20), (6, 35)])
    assert starts.starts == ((2, 0), (5, 30))


def test_the_time_to_loss_is_that_of_both_speeds() -> None:
    forecast = LossForecast()
    forecast.note(0.0, 0, 1_000)
    assert forecast.seconds(5.0, 500, 1_000) == float("inf"), "too early to tell"
    # The log start moves 100 a second, the copy 50: 1,000 offsets are used up in 20 s from 0 on.
    forecast.note(10.0, 1_000, 1_500)
    assert forecast.seconds(10.0, 1_000, 1_500) == 10.0
    assert forecast.seconds(10.0, 500, 1_500) == float("inf"), "they go at the same speed"
    forecast.note(20.0, 1_000, 200)
    assert forecast.seconds(20.0, 1_000, 200) == float("inf"), "it was set back"
