"""When a partition loses records, and how the timestamp of its next record is found."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from connectors.mirror.retention.deadline import (
    NEVER,
    LogState,
    RetentionLimits,
    limits_of,
    loss_at_ms,
)
from connectors.mirror.retention.timestamp_search import PRECISION_MS, next_stamps

NOW = 1_700_000_000_000
DAY = 86_400_000
LOG = LogState(0, 1000, 0, NOW, stamp_ms=NOW - DAY, size=1_000_000)
Key = tuple[str, int]


def test_limits_of_configs() -> None:
    assert limits_of({"retention.ms": "5", "retention.bytes": "-1"}) == RetentionLimits(5, None)
    assert limits_of({"retention.ms": "5", "cleanup.policy": "compact"}) == RetentionLimits()
    both = {"retention.ms": "5", "retention.bytes": "7", "cleanup.policy": "compact,delete"}
    assert limits_of(both) == RetentionLimits(5, 7)


def test_by_age_it_is_the_next_records_timestamp_and_retention() -> None:
    assert loss_at_ms(LOG, RetentionLimits(7 * DAY)) == NOW + 6 * DAY
    assert loss_at_ms(LOG, RetentionLimits(DAY // 2)) == NOW, "it may go now"
    assert loss_at_ms(replace(LOG, stamp_ms=None), RetentionLimits(DAY)) == NOW
    assert loss_at_ms(LOG, RetentionLimits()) == NEVER
    assert loss_at_ms(replace(LOG, position=1000), RetentionLimits(1)) == NEVER, "all is copied"


def test_by_size_it_is_when_new_bytes_push_the_next_record_out() -> None:
    limits = RetentionLimits(None, 3_000_000)
    assert loss_at_ms(LOG, limits) == NEVER, "it does not grow"
    assert loss_at_ms(replace(LOG, grows=1000.0), limits) == NOW + 2000 * 1000
    half = replace(LOG, grows=1000.0, position=500)
    assert loss_at_ms(half, limits) == NOW + 2500 * 1000, "the first half goes before it"
    assert loss_at_ms(LOG, RetentionLimits(None, 900_000)) == NOW


def test_a_log_whose_start_moves_reaches_the_next_record() -> None:
    moving = replace(LOG, position=600, start=100, trimmed=50.0)
    assert loss_at_ms(moving, RetentionLimits()) == NOW + 10_000


@given(
    stamps=st.lists(st.integers(NOW - 300 * DAY, NOW), min_size=1, max_size=200),
    at=st.integers(0, 250),
    start=st.integers(0, 1000),
)
def test_the_next_timestamp_is_found_to_some_seconds(
    stamps: list[int], at: int, start: int
) -> None:
    ordered = sorted(stamps)
    position = start + min(at, len(ordered) - 1)
    asked = 0

    def ask(times: Mapping[Key, int]) -> dict[Key, tuple[int, int]]:
        nonlocal asked
        asked += 1
        index = bisect_left(ordered, times["t", 0])
        return {("t", 0): (start + index, ordered[index]) if index < len(ordered) else (-1, -1)}

    found = next_stamps(ask, {("t", 0): position}, NOW)
    assert abs(found["t", 0] - ordered[position - start]) <= PRECISION_MS
    assert asked <= 40


def test_a_record_long_before_those_behind_it_is_told_from_them() -> None:
    stamps = [NOW - 200 * DAY, NOW - 100 * DAY - 5_000, NOW - 100 * DAY, NOW - DAY]

    def ask(times: Mapping[Key, int]) -> dict[Key, tuple[int, int]]:
        index = bisect_left(stamps, times["t", 0])
        return {("t", 0): (index, stamps[index]) if index < len(stamps) else (-1, -1)}

    found = next_stamps(ask, {("t", 0): 2}, NOW)
    assert abs(found["t", 0] - stamps[2]) <= PRECISION_MS


def test_an_empty_log_has_no_timestamp() -> None:
    assert next_stamps(lambda times: dict.fromkeys(times, (-1, -1)), {("t", 0): 5}, NOW) == {}
