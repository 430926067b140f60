"""One run of an exactly-once task: the checks before it may start, and their cancellation."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from connect.runtime.source.exactly_once_task import ExactlyOncePlan

__all__ = ["TaskRun"]


class TaskRun:
    """One run of an exactly-once task.

    `cancel` ends its checks, because the thread that stops the task is the one the checks wait for.
    """

    def __init__(
        self,
        ask: Callable[[], Future[None]],
        check: Callable[[], None],
        plan: Callable[[TaskRun], ExactlyOncePlan],
    ) -> None:
        """Create a run. `ask` and `check` run on the herder's thread; `plan` waits for them on the
        task's.
        """
        self.ask = ask
        """Asks the leader to fence earlier tasks; done when they can no longer write."""
        self._check = check
        self.cancelled = threading.Event()
        self.begun = False
        """Whether the checks are over. For the herder's thread."""
        self.plan = plan(self)

    def check(self) -> None:
        """Check that the task may start after it claimed its id. Raises the reason if not."""
        self._check()
        self.begun = True

    def cancel(self) -> None:
        self.cancelled.set()
