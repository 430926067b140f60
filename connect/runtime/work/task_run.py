"""One run of a task that writes exactly once: its checks before it may begin, and their end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from connect.runtime.source.exactly_once_task import ExactlyOncePlan

__all__ = ["TaskRun"]


class TaskRun:
    """One run of a task that writes exactly once. `cancel` ends its checks: whoever stops the task
    is the very thread that they wait for."""

    def __init__(
        self,
        ask: Callable[[], Future[None]],
        check: Callable[[], None],
        plan: Callable[[TaskRun], ExactlyOncePlan],
    ) -> None:
        """`ask` and `check` belong to the herder's thread, `plan` waits for them on the task's."""
        self.ask = ask
        """Has the leader fence out earlier tasks; done when they can write no more."""
        self._check = check
        self.cancelled = threading.Event()
        self.begun = False
        """Whether its checks are over. For the herder's thread."""
        self.plan = plan(self)

    def check(self) -> None:
        """Whether the task may begin, its id claimed. Raises what keeps it from that."""
        self._check()
        self.begun = True

    def cancel(self) -> None:
        self.cancelled.set()
