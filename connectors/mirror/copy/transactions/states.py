"""The phases of a copy engine's transactions, as a transition table. Pure.

IDLE             none is open; batches wait until their partitions were added to one
OPEN             batches of the partitions that were added are sent
CLOSING          its time is over: nothing more is sent, and sent batches are being answered
STORING          its source offsets are being written
COMMITTING       the coordinator was asked to commit
ABORTABLE_ERROR  it must not be committed: sent batches are being answered
ABORTING         the coordinator was asked to abort; then everything since the last commit is copied
                 again
OVER             another producer has the ID, or the error is fatal: the task fails
"""

from __future__ import annotations

import enum
from collections import deque

from connectors.mirror.copy.partition.states import InvariantBroken

__all__ = ["Event", "Phase", "TransactionState"]


class Phase(enum.Enum):
    IDLE = "idle"
    OPEN = "open"
    CLOSING = "closing"
    STORING = "storing"
    COMMITTING = "committing"
    ABORTABLE_ERROR = "abortable error"
    ABORTING = "aborting"
    OVER = "over"


class Event(enum.Enum):
    ADDED = "partitions were added"
    DUE = "its time is over"
    ANSWERED = "all sent batches are answered"
    STORED = "the source offsets are acknowledged"
    COMMITTED = "committed"
    ABORTABLE_ERROR = "an error makes it impossible to commit"
    ABORTED = "aborted"
    FAIL = "fenced, or rejected permanently"


_TRANSITIONS: dict[tuple[Phase, Event], Phase] = {
    (Phase.IDLE, Event.ADDED): Phase.OPEN,
    (Phase.OPEN, Event.ADDED): Phase.OPEN,
    # Responses to requests that were made while it was open. Those partitions stay empty.
    (Phase.CLOSING, Event.ADDED): Phase.CLOSING,
    (Phase.STORING, Event.ADDED): Phase.STORING,
    (Phase.COMMITTING, Event.ADDED): Phase.COMMITTING,
    (Phase.ABORTABLE_ERROR, Event.ADDED): Phase.ABORTABLE_ERROR,
    (Phase.ABORTING, Event.ADDED): Phase.ABORTING,
    (Phase.OPEN, Event.DUE): Phase.CLOSING,
    (Phase.CLOSING, Event.ANSWERED): Phase.STORING,
    (Phase.STORING, Event.STORED): Phase.COMMITTING,
    (Phase.COMMITTING, Event.COMMITTED): Phase.IDLE,
    (Phase.IDLE, Event.ABORTABLE_ERROR): Phase.ABORTABLE_ERROR,
    (Phase.OPEN, Event.ABORTABLE_ERROR): Phase.ABORTABLE_ERROR,
    (Phase.CLOSING, Event.ABORTABLE_ERROR): Phase.ABORTABLE_ERROR,
    (Phase.STORING, Event.ABORTABLE_ERROR): Phase.ABORTABLE_ERROR,
    # The coordinator rejected the commit.
    (Phase.COMMITTING, Event.ABORTABLE_ERROR): Phase.ABORTABLE_ERROR,
    (Phase.ABORTABLE_ERROR, Event.ABORTABLE_ERROR): Phase.ABORTABLE_ERROR,
    (Phase.ABORTING, Event.ABORTABLE_ERROR): Phase.ABORTING,
    (Phase.ABORTABLE_ERROR, Event.ANSWERED): Phase.ABORTING,
    (Phase.ABORTING, Event.ABORTED): Phase.IDLE,
    **{(phase, Event.FAIL): Phase.OVER for phase in Phase},
    **{(Phase.OVER, event): Phase.OVER for event in Event},
}

_HISTORY = 20


class TransactionState:
    """The phase and its history."""

    def __init__(self) -> None:
        self.phase = Phase.IDLE
        self._story: deque[str] = deque(maxlen=_HISTORY)

    def on(self, event: Event) -> Phase:
        """Apply an event. Raises `InvariantBroken`, with the earlier phases, if this phase does not
        allow it."""
        after = _TRANSITIONS.get((self.phase, event))
        if after is None:
            raise InvariantBroken(
                f"{event.value}, while {self.phase.value}; before: {', '.join(self._story)}"
            )
        if after is not self.phase:
            self._story.append(f"{self.phase.value} -> {after.value}")
        self.phase = after
        return after
