"""Every offset is dealt once and in order, the most urgent first, and never faster than allowed."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.mirror.backfill.progress import Arrival
from connectors.mirror.backfill.scheduler import (
    GIVE_UP_AFTER,
    BackfillScheduler,
    Chunk,
    ChunkProgress,
    PartitionJob,
    PartitionState,
    SchedulerOptions,
)
from connectors.mirror.retention.deadline import NEVER


def job(number: int, offsets: int, *, loss: float = NEVER, weight: float = 10.0) -> PartitionJob:
    return PartitionJob(("t", number), ("a.t", number), 5, 5 + offsets, 5, weight, loss_at_ms=loss)


def whole(piece: Chunk) -> list[ChunkProgress]:
    """Everything of a piece was copied, in records of 10 bytes."""
    return [
        ChunkProgress(each.source, each.end, each.end - each.start, 10 * (each.end - each.start))
        for each in piece.ranges
    ]


jobs_strategy = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.sampled_from([NEVER, 1e12, 2e12, 3e12]),
        st.floats(0.5, 100),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60)
@given(
    jobs=jobs_strategy,
    slots=st.integers(1, 5),
    piece_bytes=st.integers(1, 5000),
    rate=st.none() | st.floats(1, 1e6),
    seed=st.integers(0, 1000),
)
def test_each_offset_is_dealt_once_in_order_and_the_limit_is_kept(
    jobs: list[tuple[int, float, float]],
    slots: int,
    piece_bytes: int,
    rate: float | None,
    seed: int,
) -> None:
    every = [job(n, offsets, loss=loss, weight=w) for n, (offsets, loss, w) in enumerate(jobs)]
    dealer = BackfillScheduler.of(every, SchedulerOptions(piece_bytes, 10.0, rate))
    draw = random.Random(seed)
    under_way: list[Chunk] = []
    reached = {each.source: each.begin for each in every}
    now = copied = 0.0
    for _ in range(5_000):
        piece = dealer.next_piece(now, slots)
        if piece is not None:
            waiting = {each.source for other in under_way for each in other.ranges}
            for wanted in piece.ranges:
                assert wanted.source not in waiting, "a partition is in one piece at a time"
                assert wanted.start == reached[wanted.source]
                assert wanted.start < wanted.end
            under_way.append(piece)
            assert len(under_way) <= slots
            if rate is not None:
                assert sum(each.rate or 0 for each in under_way) <= rate * (1 + 1e-9)
                # What came at once is waited for.
                assert copied <= rate * now * (1 + 1e-6)
            continue
        if not under_way:
            if dealer.finished:
                break
            now += 1.0 if rate is None else max(1.0, 100_000 / rate)
            continue
        ended = under_way.pop(draw.randrange(len(under_way)))
        # Some get only a part of the way.
        part = [
            ChunkProgress(each.source, at, at - each.start, 10 * (at - each.start))
            for each in ended.ranges
            for at in [draw.choice([each.end, draw.randint(each.start, each.end)])]
        ]
        now += draw.choice([0.0, 0.1, 5.0])
        copied += sum(advance.bytes for advance in part)
        dealer.copied(ended, part, now)
        for advance in part:
            reached[advance.source] = advance.position
    assert dealer.finished
    assert all(each.state is PartitionState.DONE for each in every)
    assert all(reached[each.source] == each.end for each in every)
    assert sum(each.copied_records for each in every) == sum(offsets for offsets, _, _ in jobs)


@settings(max_examples=60)
@given(jobs=jobs_strategy)
def test_whatever_would_lose_records_comes_before_what_would_not(
    jobs: list[tuple[int, float, float]],
) -> None:
    every = [job(n, offsets, loss=loss, weight=w) for n, (offsets, loss, w) in enumerate(jobs)]
    dealer = BackfillScheduler.of(every, SchedulerOptions(1, 10.0))
    losses = []
    while (piece := dealer.next_piece(0.0, 1)) is not None:
        losses += [dealer.jobs[each.source].loss_at_ms for each in piece.ranges]
        dealer.copied(piece, whole(piece), 0.0)
    assert losses == sorted(losses)


def test_a_partition_that_becomes_urgent_is_next() -> None:
    first, second = job(0, 100, loss=1e12), job(1, 100)
    dealer = BackfillScheduler.of([first, second], SchedulerOptions(100, 10.0))
    piece = dealer.next_piece(0.0, 1)
    assert piece is not None
    assert [each.source for each in piece.ranges] == [("t", 0)]
    dealer.copied(piece, whole(piece), 0.0)
    second.loss_at_ms = 1e11
    dealer.weighed()
    piece = dealer.next_piece(0.0, 1)
    assert piece is not None
    assert [each.source for each in piece.ranges] == [("t", 1)]


def test_small_rests_share_a_piece_but_leave_some_to_the_other_slots() -> None:
    dealer = BackfillScheduler.of([job(n, 2) for n in range(10)], SchedulerOptions(1_000_000, 10.0))
    first, second = dealer.next_piece(0.0, 2), dealer.next_piece(0.0, 2)
    assert first is not None
    assert second is not None
    assert (len(first.ranges), len(second.ranges)) == (5, 5)


def test_the_last_partition_has_the_whole_limit() -> None:
    dealer = BackfillScheduler.of(
        [job(0, 1000), job(1, 10)], SchedulerOptions(100, 10.0, rate=1000.0)
    )
    first, second = dealer.next_piece(0.0, 2), dealer.next_piece(0.0, 2)
    assert first is not None
    assert second is not None
    assert (first.rate, second.rate) == (500.0, 500.0)
    dealer.copied(first, whole(first), 10.0)
    dealer.copied(second, whole(second), 10.0)
    last = dealer.next_piece(10.0, 2)
    assert last is not None
    assert last.rate == 1000.0


def test_what_fails_again_and_again_is_left_and_holds_up_nothing_else() -> None:
    bad, good = job(0, 100, loss=1e12), job(1, 100)
    dealer = BackfillScheduler.of([bad, good], SchedulerOptions(100, 10.0))
    now = 0.0
    while not dealer.finished:
        piece = dealer.next_piece(now, 1)
        if piece is None:
            now += 1.0
            continue
        if piece.ranges[0].source == bad.source:
            dealer.copied(piece, [], now)
            dealer.failed(bad.source, "it is too large", now)
        else:
            dealer.copied(piece, whole(piece), 0.0)
    assert (bad.state, bad.failures, bad.error) == (
        PartitionState.FAILED,
        GIVE_UP_AFTER,
        "it is too large",
    )
    assert good.state is PartitionState.DONE
    assert good.failures == 0


@given(
    steps=st.lists(st.tuples(st.floats(0.1, 30), st.integers(0, 50)), min_size=1, max_size=60),
    weight=st.floats(1, 100),
)
def test_progress_adds_up(steps: list[tuple[float, int]], weight: float) -> None:
    every = [job(0, sum(offsets for _, offsets in steps), weight=weight), job(1, 7, weight=weight)]
    arrival = Arrival()
    now = 100.0
    before = arrival.look(every, now)
    assert before.copied_bytes == 0
    assert before.left_s is None
    for seconds, offsets in steps:
        now += seconds
        every[0].position += offsets
        every[0].copied_bytes += round(offsets * weight)
        found = arrival.look(every, now)
        assert found.left_offsets == sum(each.left for each in every)
        assert found.copied_bytes >= before.copied_bytes
        assert 0 <= found.share <= 1
        assert (found.left_s is None) == (found.rate == 0)
        if found.left_s is not None:
            assert abs(found.left_s * found.rate - found.left_bytes) < 1e-6 * found.left_bytes + 1
        before = found
    assert abs(before.seconds - (now - 100.0)) < 1e-6


def test_the_rate_is_that_of_the_last_minute() -> None:
    one = job(0, 10_000)
    arrival = Arrival()
    for second in range(200):
        arrival.look([one], float(second))
        one.copied_bytes += 1000 if second < 100 else 10
    assert 9 < arrival.look([one], 200.0).rate < 11
