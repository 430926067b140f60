"""The forecast of losses, against a log that deletes segments by Kafka's rules.

A broker deletes from the old end: segments whose newest record is older than `retention.ms`, and
segments while what is left without them is still `retention.bytes` or more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.mirror.copy.partition.retention_forecast import LossForecast
from connectors.mirror.retention.deadline import NEVER, LogState, RetentionLimits, loss_at_ms
from connectors.mirror.retention.expected_loss import Behind, expected_loss_ms, growth
from connectors.mirror.retention.timestamp_search import PRECISION_MS, next_stamps

BEGIN_MS = 1_700_000_000_000
KEY = ("t", 0)


@dataclass
class Segment:
    """(timestamp, bytes) of each record."""

    base: int
    records: list[tuple[int, int]] = field(default_factory=list)

    size: int = 0
    newest_ms: int = -1

    def append(self, stamp_ms: int, size: int) -> None:
        self.records.append((stamp_ms, size))
        self.size += size
        self.newest_ms = max(self.newest_ms, stamp_ms)


@dataclass
class Log:
    """One partition's log; `limits` and segments of `segment_bytes`."""

    limits: RetentionLimits
    segment_bytes: int
    segments: list[Segment] = field(default_factory=list)
    end: int = 0

    @property
    def start(self) -> int:
        return self.segments[0].base if self.segments else self.end

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    def append(self, stamp_ms: int, size: int) -> None:
        if not self.segments or self.segments[-1].size + size > self.segment_bytes:
            self.segments.append(Segment(self.end))
        self.segments[-1].append(stamp_ms, size)
        self.end += 1

    def clean(self, now_ms: int) -> None:
        age, most = self.limits.retention_ms, self.limits.retention_bytes
        while age is not None and self.segments and now_ms - self.segments[0].newest_ms > age:
            del self.segments[0]
        while most is not None and self.segments and self.size - self.segments[0].size >= most:
            del self.segments[0]

    def records(self) -> list[tuple[int, int, int]]:
        return [
            (segment.base + n, *record)
            for segment in self.segments
            for n, record in enumerate(segment.records)
        ]

    def first_since(self, stamp_ms: int) -> tuple[int, int]:
        """As ListOffsets answers."""
        for offset, stamp, _ in self.records():
            if stamp >= stamp_ms:
                return offset, stamp
        return -1, -1


limits = st.builds(
    RetentionLimits,
    st.none() | st.integers(1_000, 60_000),
    st.none() | st.integers(1_000, 50_000),
)


@settings(max_examples=100)
@given(data=st.data(), limits=limits)
def test_a_loss_never_comes_before_the_forecast_and_never_without_one(
    data: st.DataObject, limits: RetentionLimits
) -> None:
    """All is known exactly: the next record's timestamp, the bytes before it, the growth."""
    log = Log(limits, data.draw(st.integers(500, 20_000)))
    pace = data.draw(st.integers(1, 20), "records a second")
    size = data.draw(st.integers(10, 500), "bytes of the largest record")
    late_ms = data.draw(st.integers(0, 30_000), "records are late by up to")
    copies = data.draw(st.integers(0, 25), "copied a second")
    drawn = Random(data.draw(st.integers(0, 10**6), "seed of the records"))
    position, seen, forecast = 0, 0, NEVER
    for second in range(data.draw(st.integers(20, 120), "seconds")):
        now_ms = BEGIN_MS + second * 1_000
        for _ in range(pace):
            log.append(now_ms - drawn.randint(0, late_ms), drawn.randint(1, size))
        log.clean(now_ms)
        if log.start > position:
            # What came and was too old since the last look could not be seen.
            assert forecast <= now_ms or position >= seen, "it was forecast for later, or never"
            return
        seen = log.end
        position = min(log.end, position + copies)
        if position == log.end:
            forecast = NEVER
            continue
        next_stamp = next(stamp for offset, stamp, _ in log.records() if offset == position)
        state = LogState(
            log.start,
            log.end,
            position,
            now_ms,
            stamp_ms=next_stamp,
            size=log.size,
            grows=float(pace * size),
            before=sum(size for offset, _, size in log.records() if offset < position),
        )
        forecast = loss_at_ms(state, limits)
        assert forecast >= now_ms


@settings(max_examples=50)
@given(data=st.data(), limits=limits)
def test_what_the_watch_sees_of_a_log_is_enough(
    data: st.DataObject, limits: RetentionLimits
) -> None:
    """It asks for timestamps as brokers answer, and takes sizes by their share. Records of one
    size, in the order of their timestamps."""
    size = data.draw(st.integers(50, 500), "bytes of a record")
    log = Log(limits, data.draw(st.integers(2 * size, 20_000)))
    pace = data.draw(st.integers(1, 20), "records a second")
    copies = data.draw(st.integers(0, 25), "copied a second")
    told = data.draw(st.booleans(), "the brokers tell the size")
    position, seen, forecast = 0, 0, NEVER
    ends: list[tuple[float, int]] = []
    for second in range(data.draw(st.integers(20, 90), "seconds")):
        now_ms = BEGIN_MS + second * 1_000
        for _ in range(pace):
            log.append(now_ms, size)
        ends = [*ends[-11:], (float(second), log.end)]
        log.clean(now_ms)
        if log.start > position:
            # One look at a log does not show how fast it grows.
            assert forecast <= now_ms or position >= seen or len(ends) == 2
            return
        seen = log.end
        position = min(log.end, position + copies)
        if position == log.end:
            forecast = NEVER
            continue
        stamps = next_stamps(
            lambda asked: {key: log.first_since(at) for key, at in asked.items()},
            {KEY: position},
            now_ms,
        )
        behind = Behind(KEY, position, log.start, log.end, float(size))
        forecast = expected_loss_ms(
            behind, limits, stamps.get(KEY), log.size if told else None, growth(ends), now_ms
        )


def behind(position: int = 0) -> Behind:
    return Behind(KEY, position, 0, 1_000, 100.0)


def test_by_age_it_is_the_next_records_timestamp_and_retention_less_what_it_was_found_to() -> None:
    stamp = BEGIN_MS - 100_000
    found = expected_loss_ms(behind(), RetentionLimits(600_000), stamp, None, 0.0, BEGIN_MS)
    assert found == stamp + 600_000 - PRECISION_MS
    assert (
        expected_loss_ms(behind(), RetentionLimits(600_000), None, None, 0.0, BEGIN_MS) == BEGIN_MS
    )
    assert expected_loss_ms(behind(), RetentionLimits(), stamp, 10**9, 5.0, BEGIN_MS) == NEVER


@pytest.mark.parametrize("size", [100_000, None])
def test_by_size_it_is_when_what_comes_pushes_it_out(size: int | None) -> None:
    """1,000 records of 100 bytes, also where only their average is known."""
    by_size = RetentionLimits(None, 150_000)
    assert expected_loss_ms(behind(), by_size, None, size, 10.0, BEGIN_MS) == BEGIN_MS + 50_000
    # The first half goes before it.
    half = expected_loss_ms(behind(500), by_size, None, size, 10.0, BEGIN_MS)
    assert half == BEGIN_MS + 100_000
    assert expected_loss_ms(behind(), by_size, None, size, 0.0, BEGIN_MS) == NEVER
    assert (
        expected_loss_ms(behind(), RetentionLimits(None, 90_000), None, size, 0.0, BEGIN_MS)
        == BEGIN_MS
    )


def test_the_earlier_of_both_limits_counts() -> None:
    both = RetentionLimits(600_000, 150_000)
    assert expected_loss_ms(behind(), both, BEGIN_MS, 100_000, 10.0, BEGIN_MS) == BEGIN_MS + 50_000
    late = expected_loss_ms(behind(), both, BEGIN_MS, 100_000, 0.001, BEGIN_MS)
    assert late == BEGIN_MS + 600_000 - PRECISION_MS


def test_growth_is_the_fastest_that_was_seen() -> None:
    assert growth([(0.0, 0), (10.0, 100), (20.0, 1_100), (30.0, 1_100)]) == 100.0
    assert growth([(0.0, 5)]) == 0.0
    assert growth([(0.0, 50), (10.0, 20)]) == 0.0, "made anew"


def test_half_an_hour_without_a_change_takes_no_memory_and_no_part_in_the_speed() -> None:
    forecast = LossForecast()
    for now in range(0, 36_000, 10):
        forecast.note(float(now), 0, 10_000)
    assert len(forecast._samples) == 2
    for now in range(36_000, 36_600, 10):  # Now ten offsets are deleted each second.
        forecast.note(float(now), (now - 36_000) * 10, 10_000)
    # 600 s of 2,400 s at ten a second; the position does not move.
    assert forecast.seconds(36_600.0, 6_000, 10_000) == pytest.approx(4_000 / 2.5, rel=0.02)


def test_a_forecast_by_retention_counts_until_the_log_start_says_otherwise() -> None:
    forecast = LossForecast()
    assert forecast.seconds(0.0, 0, 10) == math.inf
    forecast.expect(100.0)
    assert forecast.seconds(40.0, 0, 10) == 60.0
    assert forecast.seconds(140.0, 0, 10) == 0.0
    forecast.expect(math.inf)
    assert forecast.seconds(140.0, 0, 10) == math.inf
    forecast.note(0.0, 0, 1_000)
    forecast.expect(10_000.0)
    assert forecast.seconds(100.0, 500, 1_000) == 100.0, "the log start moves faster"
