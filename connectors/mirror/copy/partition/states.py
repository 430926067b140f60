"""The states of a partition on its way to the target, as a transition table. Pure.

* STARTING: its first source offset is not known yet.
* ACTIVE: fetched and produced.
* RECOVERING: a produce failed. Nothing is sent until all that was sent is answered.
* BACKOFF: waits, then ACTIVE again with the same batches.
* BLOCKED: the target rejected its oldest batch. Waits, then fetched again.
* BROKEN: an invariant did not hold. Nothing more of it is copied or stored.
"""

from __future__ import annotations

import enum

__all__ = ["CopyEvent", "CopyLife", "CopyState", "InvariantBroken"]


class CopyState(enum.Enum):
    STARTING = "starting"
    ACTIVE = "active"
    RECOVERING = "recovering"
    BACKOFF = "backoff"
    BLOCKED = "blocked"
    BROKEN = "broken"


class CopyEvent(enum.Enum):
    STARTED = "its first source offset is known"
    FAILED = "the target did not accept a batch"
    RECOVERED = "all sent batches are answered, and the rest can be sent"
    DELAYED = "all sent batches are answered, and the rest is sent after a backoff"
    REFUSED = "all sent batches are answered, and the oldest is rejected permanently"
    WAITED = "the backoff is over"
    RESET = "it continues at an earlier offset"
    BROKE = "an invariant does not hold"


_ACTIVE, _RECOVERING = CopyState.ACTIVE, CopyState.RECOVERING
_BACKOFF, _BLOCKED = CopyState.BACKOFF, CopyState.BLOCKED

_TRANSITIONS: dict[tuple[CopyState, CopyEvent], CopyState] = {
    (CopyState.STARTING, CopyEvent.STARTED): _ACTIVE,
    (_ACTIVE, CopyEvent.FAILED): _RECOVERING,
    (_RECOVERING, CopyEvent.FAILED): _RECOVERING,
    (_RECOVERING, CopyEvent.RECOVERED): _ACTIVE,
    (_RECOVERING, CopyEvent.DELAYED): _BACKOFF,
    (_RECOVERING, CopyEvent.REFUSED): _BLOCKED,
    # The transaction did not accept the partition, so it has no batch in flight.
    (_ACTIVE, CopyEvent.DELAYED): _BACKOFF,
    (_ACTIVE, CopyEvent.REFUSED): _BLOCKED,
    (_BACKOFF, CopyEvent.DELAYED): _BACKOFF,
    (_BACKOFF, CopyEvent.REFUSED): _BLOCKED,
    (_BLOCKED, CopyEvent.DELAYED): _BACKOFF,
    (_BLOCKED, CopyEvent.REFUSED): _BLOCKED,
    (_BACKOFF, CopyEvent.WAITED): _ACTIVE,
    (_BLOCKED, CopyEvent.WAITED): _ACTIVE,
    # The current backoff continues, because the target is still failing.
    (CopyState.STARTING, CopyEvent.RESET): CopyState.STARTING,
    (_ACTIVE, CopyEvent.RESET): _ACTIVE,
    (_RECOVERING, CopyEvent.RESET): _ACTIVE,
    (_BACKOFF, CopyEvent.RESET): _BACKOFF,
    (_BLOCKED, CopyEvent.RESET): _BLOCKED,
    **{(state, CopyEvent.BROKE): CopyState.BROKEN for state in CopyState},
    **{(CopyState.BROKEN, event): CopyState.BROKEN for event in CopyEvent},
}

_HISTORY = 24


class InvariantBroken(Exception):
    """The copier's own state is inconsistent. This is a bug of the copier, never of a broker.

    It is not a `ConnectError`, so that no retry or reconnect hides it. The message names the
    partition, the invariant and the preceding events.
    """


class CopyLife:
    """The state of one partition and the events that led to it."""

    __slots__ = ("_history", "state")

    def __init__(self, state: CopyState = CopyState.STARTING) -> None:
        self.state = state
        # No deque: an empty one takes 760 bytes, and a task may have 100,000 partitions.
        self._history: list[tuple[object, ...]] = []

    def note(self, *event: object) -> None:
        """Add an event to the history that changes no state. Nothing is formatted here."""
        self._history.append(event)
        if len(self._history) > _HISTORY:
            del self._history[0]

    def on(self, event: CopyEvent, name: str) -> CopyState:
        """Apply an event. Raises `InvariantBroken` if the table has no such transition."""
        after = _TRANSITIONS.get((self.state, event))
        if after is None:
            raise self.broken(name, f"event {event.name} is not allowed in state {self.state.name}")
        self.note(event.name, self.state.name, after.name)
        self.state = after
        return after

    def broken(self, name: str, invariant: str) -> InvariantBroken:
        """Build the error for a broken invariant, with the history."""
        return InvariantBroken(f"{name}: {invariant}; before: {self.history()}")

    def history(self) -> str:
        """The last events, oldest first."""
        return ", ".join(" ".join(str(part) for part in event) for event in self._history) or "none"
