"""The turns of one task, which either its own thread or the engine thread takes: never both.

The task's thread lends the turns and takes them back. In between the engine thread takes them. A
turn that raises, or the end of the engine thread, gives them back, too.

    holder      what happens      next holder
    task        lend              engine
    engine      begin a turn      turn
    engine      ask back          task
    turn        the turn ends     engine
    turn        the turn raises   task
    turn        ask back          recalled
    recalled    the turn ends     task
    recalled    the turn raises   task
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from enum import Enum

from connect.clock import Clock
from connect.errors import ConnectError

__all__ = ["Holder", "TurnLoan"]


class Holder(Enum):
    """The thread that may call the task."""

    TASK = "task"
    """Its own thread."""
    ENGINE = "engine"
    """The engine thread, outside a turn of the task."""
    TURN = "turn"
    """The engine thread, in a turn of the task."""
    RECALLED = "recalled"
    """As `TURN`; the task's thread gets the turns back after it."""


class _Event(Enum):
    LEND = "lend"
    BEGIN = "begin a turn"
    END = "the turn ends"
    RAISE = "the turn raises"
    ASK_BACK = "ask back"


_MOVES = {
    (Holder.TASK, _Event.LEND): Holder.ENGINE,
    (Holder.TASK, _Event.ASK_BACK): Holder.TASK,
    (Holder.ENGINE, _Event.BEGIN): Holder.TURN,
    (Holder.ENGINE, _Event.ASK_BACK): Holder.TASK,
    (Holder.TURN, _Event.END): Holder.ENGINE,
    (Holder.TURN, _Event.RAISE): Holder.TASK,
    (Holder.TURN, _Event.ASK_BACK): Holder.RECALLED,
    (Holder.RECALLED, _Event.END): Holder.TASK,
    (Holder.RECALLED, _Event.RAISE): Holder.TASK,
    (Holder.RECALLED, _Event.ASK_BACK): Holder.RECALLED,
}


class TurnLoan:
    """The turns of one task. `lend` and `wait_back` are for the task's thread, `take_turn` is for
    the engine thread, and `ask_back` for any thread.

    Its lock is held for a few instructions only, so the engine thread never waits for work.
    """

    def __init__(
        self, name: str, turn: Callable[[], float], on_back: Callable[[], None] = lambda: None
    ) -> None:
        """Create it, held by the task. `turn` works without waiting and returns the seconds until
        the next turn is due. `on_back` is called when the task holds its turns again, on the
        thread that gives them back; it must return at once.
        """
        self.name = name
        self.due_at = -math.inf
        """When the next turn is due, in the engine thread's monotonic seconds."""
        self._turn = turn
        self._on_back = on_back
        self._changed = threading.Condition()
        self._holder = Holder.TASK
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    @property
    def holder(self) -> Holder:
        return self._holder

    @property
    def back(self) -> bool:
        """Whether the task holds its turns."""
        return self._holder is Holder.TASK

    def lend(self) -> None:
        """Let the engine thread take the turns. The first one is due at once."""
        with self._changed:
            self._move(_Event.LEND)
            self.due_at = -math.inf

    def ask_back(self) -> None:
        """Let no further turn begin. The task holds its turns at once, or after the turn that runs
        now. Does not wait.
        """
        with self._changed:
            self._move(_Event.ASK_BACK)

    def wait_back(self, timeout_s: float) -> bool:
        """Wait until the task holds its turns. Return False after the timeout.

        Raises the error of the turn that ended the loan, once.
        """
        with self._changed:
            back = self._changed.wait_for(lambda: self._holder is Holder.TASK, timeout_s)
            error, self._error = self._error, None
        if error is not None:
            raise error
        return back

    def take_turn(self, clock: Clock, thread: threading.Thread) -> bool:
        """Take one turn, on this thread. Return whether the turns are still lent. Never raises."""
        if not self._begin(thread):
            return False
        try:
            self.due_at = clock.monotonic() + self._turn()
        except BaseException as error:  # noqa: BLE001 - the task's thread raises it
            return self._end(_Event.RAISE, error)
        return self._end(_Event.END)

    @property
    def taken_by(self) -> threading.Thread | None:
        """The thread that is in a turn; None if none is."""
        thread = self._thread
        return thread if self._holder in (Holder.TURN, Holder.RECALLED) else None

    def _begin(self, thread: threading.Thread) -> bool:
        with self._changed:
            if self._holder is not Holder.ENGINE:
                return False
            self._thread = thread
            self._holder = self._after(_Event.BEGIN)
            return True

    def _end(self, event: _Event, error: BaseException | None = None) -> bool:
        with self._changed:
            self._error = error
            return self._move(event)

    def _move(self, event: _Event) -> bool:
        """Change the holder, with the lock held. Return whether the turns are still lent."""
        before, self._holder = self._holder, self._after(event)
        if self._holder is not Holder.TASK:
            return True
        if before is not Holder.TASK:
            self._changed.notify_all()
            self._on_back()
        return False

    def _after(self, event: _Event) -> Holder:
        after = _MOVES.get((self._holder, event))
        if after is None:
            raise ConnectError(
                f"Cannot {event.value} for task {self.name} while its turns are with the"
                f" {self._holder.value}"
            )
        return after
