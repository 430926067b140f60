"""The table of a transaction's phases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.mirror.copy.partition.states import InvariantBroken
from connectors.mirror.copy.transactions.states import Event, Phase, TransactionState

COMMIT = [Event.ADDED, Event.DUE, Event.ANSWERED, Event.STORED, Event.COMMITTED]


def life(*events: Event) -> TransactionState:
    made = TransactionState()
    for event in events:
        made.on(event)
    return made


def test_a_transaction_is_opened_closed_stored_and_committed() -> None:
    made = TransactionState()
    phases = [made.on(event) for event in COMMIT]
    assert phases == [Phase.OPEN, Phase.CLOSING, Phase.STORING, Phase.COMMITTING, Phase.IDLE]


@pytest.mark.parametrize("done", range(len(COMMIT)))
def test_from_anywhere_it_can_be_aborted_and_begun_again(done: int) -> None:
    made = life(*COMMIT[:done])
    assert made.on(Event.ABORTABLE_ERROR) is Phase.ABORTABLE_ERROR
    assert made.on(Event.ABORTABLE_ERROR) is Phase.ABORTABLE_ERROR
    assert made.on(Event.ANSWERED) is Phase.ABORTING
    assert made.on(Event.ABORTED) is Phase.IDLE
    assert made.on(Event.ADDED) is Phase.OPEN


@pytest.mark.parametrize(
    "events",
    [
        [Event.DUE],
        [Event.COMMITTED],
        [Event.ADDED, Event.STORED],
        [Event.ADDED, Event.COMMITTED],
        [Event.ADDED, Event.DUE, Event.STORED],
        [Event.ADDED, Event.DUE, Event.DUE],
        [Event.ADDED, Event.ABORTABLE_ERROR, Event.STORED],
        [Event.ADDED, Event.ABORTABLE_ERROR, Event.DUE],
        [Event.ADDED, Event.ABORTABLE_ERROR, Event.COMMITTED],
        [Event.ADDED, Event.ABORTABLE_ERROR, Event.ANSWERED, Event.COMMITTED],
    ],
)
def test_what_cannot_come_tells_what_came_before(events: list[Event]) -> None:
    made = life(*events[:-1])
    before = made.phase
    with pytest.raises(InvariantBroken, match=events[-1].value):
        made.on(events[-1])
    assert made.phase is before


@given(st.lists(st.sampled_from(list(Event)), max_size=40))
def test_nothing_is_committed_but_what_was_answered_and_stored(events: list[Event]) -> None:
    made = TransactionState()
    path: list[Event] = []
    for event in events:
        before = made.phase
        try:
            made.on(event)
        except InvariantBroken:
            continue
        if before is Phase.IDLE:
            path = []
        if made.phase is not before:
            path.append(event)
        if event is Event.COMMITTED and before is not Phase.OVER:
            assert path == COMMIT
        if before is Phase.OVER:
            assert made.phase is Phase.OVER, "there is no way back"
