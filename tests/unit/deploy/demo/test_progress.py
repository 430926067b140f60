"""Lag and rates of the demo, from offsets and timestamps of both sides."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping

import pytest

from deploy.demo.events import DemoTopic, mean_event_bytes
from deploy.demo.progress import Observation, PartitionEnds, Progress


def ten_bytes(number: int, _dice: random.Random) -> tuple[bytes | None, bytes]:
    return b"%05d" % number, b"%05d" % number


PLAIN = DemoTopic("plain", 2, "", "none", 0, 10, ten_bytes)
HOLES = DemoTopic("holes", 1, "", "none", 0, 10, ten_bytes, transactional=True)


def ends(source: int, target: int, behind_ms: int | None = 0) -> PartitionEnds:
    if behind_ms is None:
        return PartitionEnds(source, target)
    return PartitionEnds(source, target, 1_000_000, 1_000_000 - behind_ms)


def observation(
    at: float, *partitions: PartitionEnds, lag: Mapping[tuple[str, int], int] | None = None
) -> Observation:
    keys = [("plain", 0), ("plain", 1), ("holes", 0)]
    return Observation(at, dict(zip(keys, partitions, strict=True)), lag or {})


@pytest.fixture
def progress() -> Progress:
    return Progress([PLAIN, HOLES])


def test_lag_is_summed_over_partitions_and_time_is_that_of_the_worst(progress: Progress) -> None:
    progress.add(observation(0, ends(100, 90, 250), ends(50, 50), ends(0, 0, None)))
    row = progress.rows()[0]

    assert (row.source_end, row.target_end, row.lag_records) == (150, 140, 10)
    assert row.lag_seconds == 0.25


def test_a_copy_that_was_asked_later_is_never_ahead(progress: Progress) -> None:
    progress.add(observation(0, ends(10, 12, -5), ends(5, 5), ends(0, 0, None)))

    assert (progress.rows()[0].lag_records, progress.rows()[0].lag_seconds) == (0, 0)


def test_where_offsets_have_holes_the_mirror_s_own_figure_counts(progress: Progress) -> None:
    progress.add(observation(0, ends(1, 1), ends(1, 1), ends(100, 80)))
    assert progress.rows()[1].lag_records is None

    progress.add(observation(1, ends(1, 1), ends(1, 1), ends(100, 80), lag={("holes", 0): 3}))
    assert progress.rows()[1].lag_records == 3


def test_without_a_copied_record_the_lag_in_time_is_not_known(progress: Progress) -> None:
    progress.add(observation(0, ends(9, 0, None), ends(9, 0, None), ends(0, 0, None)))

    assert progress.rows()[0].lag_seconds is None


@pytest.mark.parametrize(("source", "target"), [(True, False), (False, True)])
def test_the_lag_to_a_cluster_that_does_not_answer_is_not_known(
    progress: Progress, source: bool, target: bool
) -> None:
    seen = observation(
        0, ends(9, 9, None), ends(9, 9, None), ends(5, 5, None), lag={("holes", 0): 0}
    )
    progress.add(dataclasses.replace(seen, source_silent=source, target_silent=target))
    assert [row.lag_records for row in progress.rows()] == [None, None]
    assert [row.lag_seconds for row in progress.rows()] == [None, None]
    assert progress.rows()[0].source_end == 18


def test_rates_are_those_of_the_last_second(progress: Progress) -> None:
    for tenth, copied in enumerate(
        [0, 0, 0, 0, 0, 1_000, 1_000, 1_000, 1_000, 1_000, 2_000, 2_000]
    ):
        progress.add(
            observation(tenth / 2, ends(5_000, copied), ends(0, 0, None), ends(0, 0, None))
        )
    row = progress.rows()[0]

    assert row.records_per_s == pytest.approx(1_000)
    assert row.bytes_per_s == pytest.approx(10_000)
    assert progress.peak_bytes_per_s == pytest.approx(10_000)
    assert progress.copied_records() == 2_000
    assert progress.copied_bytes() == pytest.approx(20_000)


def test_one_look_gives_no_rate(progress: Progress) -> None:
    progress.add(observation(0, ends(9, 9), ends(9, 9), ends(9, 9)))

    assert progress.rows()[0].records_per_s == 0


def test_mean_sizes_count_key_and_value() -> None:
    assert mean_event_bytes(PLAIN) == 10


def test_where_records_may_be_there_twice_offsets_count_only_where_nobody_reports() -> None:
    progress = Progress([PLAIN, HOLES], repeats=True)
    seen = (ends(100, 130), ends(100, 90), ends(0, 0))
    progress.add(observation(0, *seen, lag={("plain", 0): 20}))
    assert progress.rows()[0].lag_records == 30
