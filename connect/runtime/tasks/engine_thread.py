"""A thread that takes the turns of many running transfer tasks of a worker.

In CPython threads share one interpreter lock, and four tasks on threads of their own need up to
twice the CPU for each record. One thread waits for the descriptors and timers of all tasks, and
gives each task that is ready one turn, those first that had theirs longest ago. A worker has one
such thread for tasks that only move bytes and one for those that transform records, whose turns
take up to a quarter of a second.

A turn must not block. If one does all the same, the other tasks get another thread
(`relieve`), and the blocked one ends after its turn.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextvars import copy_context

from connect.clients.wire.poller import Poller, SystemPoller
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.runtime.tasks.turn_loan import TurnLoan
from connect.runtime.tasks.turn_loop import TurnLoop
from connect.runtime.thread_dumps import where

__all__ = ["EngineThread"]

_log = logging.getLogger(__name__)

# A turn takes milliseconds, on a machine with much other work a second.
_BLOCKED_S = 10.0


class EngineThread:
    """Takes lent turns. Its methods are safe from any thread but its own. The thread starts with
    the first loan.
    """

    def __init__(
        self,
        name: str = "engine",
        clock: Clock = SYSTEM_CLOCK,
        make_poller: Callable[[], Poller] = SystemPoller,
    ) -> None:
        self._name = name
        self._clock = clock
        self._make_poller = make_poller
        # Of the worker: the first loan, which starts the thread, is one task's.
        self._context = copy_context()
        self._lock = threading.Lock()
        self._loop: TurnLoop | None = None
        self._closed = False

    def lend(self, loan: TurnLoan, descriptor: int) -> bool:
        """Let the thread take the turns of a task, which has this descriptor.

        Return False, and lend nothing, if the thread has ended or no more files can be opened.
        """
        with self._lock:
            if self._closed:
                return False
            loop = self._loop
            if loop is None:
                loop = self._loop = self._start()
        if loop.ended:
            return False
        try:
            # The task may close its descriptor while the thread still watches it.
            own = os.dup(descriptor)
        except OSError as error:
            _log.warning("Task %s keeps its own thread: %s", loan.name, error)
            return False
        loan.lend()
        loop.add(loan, own)
        return True

    def relieve(self) -> None:
        """Give the other tasks another thread if a task blocks this one. Tasks' threads call it
        from time to time.
        """
        with self._lock:
            loop = self._loop
            blocked = None if loop is None else loop.blocked(_BLOCKED_S)
            if loop is None or blocked is None or self._closed:
                return
            self._loop = self._start()
            loop.hand_over(self._loop)
        _log.error(
            "Task %s has blocked the engine thread for %g s; the other tasks continue on a new one."
            " Its stack:\n%s",
            blocked.name,
            _BLOCKED_S,
            where(loop.thread),
        )

    def close(self, deadline: Deadline) -> bool:
        """End the thread and give all turns back. Return False if it has not ended by the
        deadline.
        """
        with self._lock:
            self._closed = True
            loop = self._loop
        if loop is None:
            return True
        loop.close()
        loop.thread.join(deadline.remaining())
        if loop.thread.is_alive():
            _log.error(
                "The engine thread did not stop in time; nothing has to be done, it ends "
                "with the process. Its stack:\n%s",
                where(loop.thread),
            )
        return not loop.thread.is_alive()

    def _start(self) -> TurnLoop:
        loop = TurnLoop(self._name, self._make_poller(), self._clock, self._context.copy())
        loop.thread.start()
        return loop
