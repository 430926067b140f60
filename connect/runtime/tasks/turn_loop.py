"""One thread that waits for lent tasks, and gives turns to those that are ready or due."""

from __future__ import annotations

import logging
import math
import os
import threading
from collections import deque
from collections.abc import Collection
from contextvars import Context

from connect.clients.wire.poller import READ, Poller
from connect.clock import Clock
from connect.log_fields import OwnedThread
from connect.runtime.tasks.turn_loan import TurnLoan

__all__ = ["TurnLoop"]

_log = logging.getLogger(__name__)

_LONGEST_WAIT_S = 1.0


class TurnLoop:
    """Owns its thread, its poller and the descriptors that are passed to `add`.

    `add`, `blocked`, `hand_over` and `close` are safe from other threads.
    """

    def __init__(
        self, name: str, poller: Poller, clock: Clock, context: Context | None = None
    ) -> None:
        """`context`: has the thread's log fields between turns."""
        self.thread = OwnedThread(self._main, name, context)
        self._poller = poller
        self._clock = clock
        self._lock = threading.Lock()
        """Held for a few instructions only."""
        self._added: deque[tuple[TurnLoan, int]] = deque()
        self._watched: dict[TurnLoan, int] = {}
        """The descriptors of the loans, in the order of their last turns, the oldest first."""
        self._in_turn: TurnLoan | None = None
        self._since = 0.0
        self._successor: TurnLoop | None = None
        self._closing = False
        self._ended = False

    @property
    def ended(self) -> bool:
        """Whether it takes no loans any more."""
        return self._ended

    def add(self, loan: TurnLoan, descriptor: int) -> None:
        """Take the turns of a task. The thread closes the descriptor."""
        with self._lock:
            successor = self._successor
            if successor is None and not self._ended:
                self._added.append((loan, descriptor))
                self._poller.wake()
                return
        if successor is not None:
            successor.add(loan, descriptor)
        else:
            os.close(descriptor)
            loan.ask_back()

    def blocked(self, seconds: float) -> TurnLoan | None:
        """Return the task whose turn has lasted longer than this; None if there is none."""
        with self._lock:
            loan, since = self._in_turn, self._since
        return loan if loan is not None and self._clock.monotonic() - since > seconds else None

    def hand_over(self, successor: TurnLoop) -> None:
        """Give all loans to another loop: the one in a turn after that turn, the others now."""
        with self._lock:
            self._successor = successor
            loans = [*self._watched.items(), *self._added]
            moved = [each for each in loans if each[0] is not self._in_turn]
            self._added.clear()
            self._watched = {loan: own for loan, own in loans if loan is self._in_turn}
            self._poller.wake()
        for loan, descriptor in moved:
            successor.add(loan, descriptor)

    def close(self) -> None:
        """End after the turn that runs now, and give the turns back. Does not wait."""
        with self._lock:
            self._closing = True
            if not self._ended:
                self._poller.wake()

    # The thread.

    def _main(self) -> None:
        try:
            while not self._closing and self._successor is None:
                self._take_added()
                self._give_turns(self._wait())
        except Exception:  # noqa: BLE001 - the top of a thread; the tasks continue without it
            _log.exception("The engine thread failed; tasks continue on their own threads")
        finally:
            self._leave()

    def _take_added(self) -> None:
        while self._added:
            loan, descriptor = self._added.popleft()
            self._drop(loan)
            try:
                self._poller.register(descriptor, READ)
            except OSError as error:
                _log.warning("Task %s keeps its own thread: %s", loan.name, error)
                os.close(descriptor)
                loan.ask_back()
            else:
                self._watched[loan] = descriptor

    def _drop(self, loan: TurnLoan) -> None:
        descriptor = self._watched.pop(loan, None)
        if descriptor is not None:
            self._poller.unregister(descriptor)
            os.close(descriptor)

    def _wait(self) -> Collection[int]:
        """Return the descriptors that are readable, after a wait if no task is due."""
        due_at = min((loan.due_at for loan in self._watched), default=math.inf)
        wait = min(_LONGEST_WAIT_S, max(0.0, due_at - self._clock.monotonic()))
        return {descriptor for descriptor, _ in self._poller.select(wait)}

    def _give_turns(self, readable: Collection[int]) -> None:
        """Give every task that is ready or due one turn."""
        now = self._clock.monotonic()
        for loan, descriptor in list(self._watched.items()):
            if descriptor not in readable and loan.due_at > now:
                continue
            if not self._turn(loan):
                return

    def _turn(self, loan: TurnLoan) -> bool:
        """Give a task its turn. Return False if this thread is to end."""
        with self._lock:
            if self._successor is not None or self._closing:
                return False
            self._in_turn, self._since = loan, self._clock.monotonic()
        lent = loan.take_turn(self._clock, self.thread)
        with self._lock:
            self._in_turn = None
            if self._successor is not None:
                return False
            # The others come first now.
            self._watched[loan] = self._watched.pop(loan)
        if not lent:
            self._drop(loan)
        return True

    def _leave(self) -> None:
        with self._lock:
            self._ended = True
            left = [*self._watched.items(), *self._added]
            self._added.clear()
            self._watched = {}
            self._poller.close()
        for loan, descriptor in left:
            if self._successor is not None:
                self._successor.add(loan, descriptor)
            else:
                os.close(descriptor)
                loan.ask_back()
