"""Where transactions end, by the three kinds of boundaries."""

from __future__ import annotations

import pytest

from connect.errors import ConfigError, ConnectError
from connect.plugin import SourceRecord
from connect.runtime.source.transaction_boundaries import (
    Ending,
    IntervalBoundaries,
    PollBoundaries,
    make_boundaries,
    transfer_boundary_s,
)
from tests.support.fake_clock import FakeClock

NONE, COMMIT, ABORT = Ending.NONE, Ending.COMMIT, Ending.ABORT


def record(number: int) -> SourceRecord:
    return SourceRecord({"p": 0}, {"o": number}, "t", 0, None, None)


def test_each_poll_is_a_transaction_without_another_word() -> None:
    boundaries, context = make_boundaries({}, 60.0)
    assert isinstance(boundaries, PollBoundaries)
    assert context is None
    assert boundaries.after_record(record(1)) is NONE
    assert [boundaries.after_batch(), boundaries.at_end()] == [COMMIT, COMMIT]


def test_an_interval_ends_with_the_first_batch_after_it() -> None:
    clock = FakeClock()
    boundaries, _ = make_boundaries(
        {"transaction.boundary": "INTERVAL", "transaction.boundary.interval.ms": "2000"},
        60.0,
        clock,
    )
    seen = []
    for step in (1.0, 1.0, 1.5, 0.5):
        clock.advance(step)
        seen.append(boundaries.after_batch())
    assert seen == [NONE, COMMIT, NONE, COMMIT]
    assert boundaries.at_end() is COMMIT


def test_an_interval_begins_anew_after_a_pause() -> None:
    clock = FakeClock()
    boundaries = IntervalBoundaries(2.0, clock)
    clock.advance(1.9)
    boundaries.begin()
    clock.advance(1.9)
    assert boundaries.after_batch() is NONE


def test_the_workers_commit_interval_is_the_default_one() -> None:
    clock = FakeClock()
    boundaries, _ = make_boundaries({"transaction.boundary": "interval"}, 5.0, clock)
    clock.advance(4.9)
    assert boundaries.after_batch() is NONE
    clock.advance(0.1)
    assert boundaries.after_batch() is COMMIT


def test_a_connector_ends_transactions_after_batches_and_after_records() -> None:
    boundaries, context = make_boundaries({"transaction.boundary": "connector"}, 60.0)
    assert context is not None
    first, second, third = record(1), record(1), record(3)
    context.commit_transaction(second)
    context.abort_transaction(third)
    seen = [boundaries.after_record(each) for each in (first, second, second, third)]
    assert seen == [NONE, COMMIT, NONE, ABORT]
    assert boundaries.after_batch() is NONE
    context.commit_transaction()
    assert [boundaries.after_batch(), boundaries.after_batch()] == [COMMIT, NONE]
    assert boundaries.at_end() is NONE
    context.abort_transaction()
    assert boundaries.at_end() is ABORT


def test_what_a_connector_asks_for_must_make_sense() -> None:
    boundaries, context = make_boundaries({"transaction.boundary": "connector"}, 60.0)
    assert context is not None
    asked = record(1)
    context.commit_transaction(asked)
    context.abort_transaction(asked)
    with pytest.raises(
        ConnectError, match="commit and abort of same record against topic/partition"
    ):
        boundaries.after_record(asked)
    context.commit_transaction()
    context.abort_transaction()
    with pytest.raises(ConnectError, match="commit and abort of same transaction"):
        boundaries.after_batch()


def test_a_transfer_task_has_an_interval_or_ends_transactions_as_it_likes() -> None:
    assert transfer_boundary_s({}, 60.0) is None
    assert transfer_boundary_s({"transaction.boundary": "POLL"}, 60.0) is None
    interval = {"transaction.boundary": "interval"}
    assert transfer_boundary_s(interval, 60.0) == 60.0
    assert (
        transfer_boundary_s({**interval, "transaction.boundary.interval.ms": "250"}, 60.0) == 0.25
    )
    with pytest.raises(ConfigError, match="use poll or interval") as refused:
        transfer_boundary_s({"transaction.boundary": "connector", "connector.class": "X"}, 60.0)
    assert refused.value.key == "transaction.boundary"
