"""The estimate of the bytes that a partition is behind."""

from __future__ import annotations

from connectors.mirror.copy.partition.offset_size import OffsetSize


def test_nothing_is_estimated_before_a_measurement() -> None:
    size = OffsetSize()
    size.measure(0, 10)
    size.measure(10, 0)
    assert size.estimate(5) is None
    assert size.estimate(None) is None
    assert size.estimate(0) == 0


def test_the_average_counts_gaps_and_follows_newer_records() -> None:
    size = OffsetSize()
    size.measure(1000, 10)
    assert size.estimate(7) == 700
    for _ in range(20):
        size.measure(4000, 10)
    assert size.estimate(10) == 4000


def test_a_small_fetch_hardly_changes_the_average_of_a_large_one() -> None:
    size = OffsetSize()
    size.measure(1_000_000, 10_000)
    size.measure(500, 1)
    assert size.estimate(100) == 10_008
