"""Commits source offsets for source tasks and transfer tasks.

A commit has three steps that may each take a while: gather the offsets that are safe to store,
store them, and inform the task. The committer never blocks: its task's thread calls `turn` often,
and `next_turn_s` returns when there is something to do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import AuthenticationFailed, ConnectError
from connect.futures import CommitRequests
from connect.loop import is_retriable
from connect.metrics.task_metrics import TaskMetrics
from connect.plugin import StoredOffset
from connect.storage.offset_writer import OffsetWriter

__all__ = ["OffsetCommitter"]

_log = logging.getLogger(__name__)

# How often a final commit checks the commits it waits for.
_PUMP_S = 0.05


class _Step(Enum):
    IDLE = "idle"
    GATHERING = "gathering"
    STORING = "storing"


class OffsetCommitter:
    """The commits of one task. Used on the task's thread only.

    `gather` starts the first step and `committed` is the last. `wake` makes a waiting task thread
    check again, and is called from any thread when a step has finished.
    """

    def __init__(
        self,
        name: str,
        writer: OffsetWriter,
        gather: Callable[[], Future[list[StoredOffset]]],
        committed: Callable[[], None],
        wake: Callable[[], None],
        *,
        interval_s: float,
        timeout_s: float,
        metrics: TaskMetrics | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._name = name
        self._writer = writer
        self._gather = gather
        self._committed = committed
        self._wake = wake
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._metrics = metrics
        self._clock = clock
        self._step = _Step.IDLE
        self._gathering: Future[list[StoredOffset]] | None = None
        self._storing: Future[None] | None = None
        self._began = clock.monotonic()
        self._due = self._began + interval_s
        self._late_said = False
        self.trouble: str | None = None
        """Why source offsets cannot be stored at the moment; None without a known problem."""
        self._requests = CommitRequests()

    def next_turn_s(self) -> float:
        """Return the seconds until `turn` has something to do, unless `wake` is called earlier."""
        if self._step is not _Step.IDLE:
            return self._timeout_s
        if self._requests:
            return 0.0
        return max(0.0, self._due - self._clock.monotonic())

    def request(self) -> Future[None]:
        """Commit soon, whatever the interval. The future completes when the offsets are stored."""
        return self._requests.add()

    def turn(self) -> None:
        """Do the steps that are possible now.

        Raises fatal errors of gathering or storing, but a refused login is only a `trouble`.
        """
        if self._step is _Step.IDLE and (self._requests or self._clock.monotonic() >= self._due):
            self._begin()
        if self._gathering is not None and self._gathering.done():
            self._store(self._gathering)
        if self._storing is not None and self._storing.done():
            self._end(self._storing)
        self._say_if_late()

    def finish(self, deadline: Deadline, pump: Callable[[float], object]) -> bool:
        """Make the final offset commit: wait for the commit in progress, then commit once more.

        `pump(seconds)` runs the task's loop for at most that long, or only processes delivery
        reports if the task has failed. Returns False if not all offsets were stored by the
        deadline.
        """
        if not self._wait_idle(deadline, pump):
            return False
        final = self.request()
        self.turn()
        self._wait_idle(deadline, pump)
        return final.done() and final.exception() is None

    def abandon(self, error: ConnectError) -> None:
        """Fail all waiting commits with the error: `turn` will not be called again."""
        self._requests.end_all(error)

    def _wait_idle(self, deadline: Deadline, pump: Callable[[float], object]) -> bool:
        while self._step is not _Step.IDLE:
            if deadline.expired():
                return False
            pump(min(_PUMP_S, deadline.remaining()))
            self.turn()
        return True

    def _begin(self) -> None:
        self._began = self._clock.monotonic()
        self._late_said = False
        self._requests.begin()
        self._step = _Step.GATHERING
        try:
            self._gathering = self._gather()
        except Exception as error:  # noqa: BLE001 - plugin code; judged like a failed future
            self._fail("gathered", error)
            return
        self._gathering.add_done_callback(lambda _: self._wake())

    def _store(self, gathered: Future[list[StoredOffset]]) -> None:
        self._gathering = None
        try:
            self._writer.add(gathered.result())
        except Exception as error:  # noqa: BLE001 - whatever a plugin's future holds
            self._fail("gathered", error)
            return
        if not self._writer.waiting:
            self._succeed()
            return
        self._step = _Step.STORING
        self._storing = self._writer.flush()
        self._storing.add_done_callback(lambda _: self._wake())

    def _end(self, stored: Future[None]) -> None:
        self._storing = None
        error = stored.exception()
        if error is not None:
            self._writer.failed()
            # A worker ends when its group refuses the login, and its successor reads the config
            # again; until then the task does what it can.
            self._fail("stored", error, passing=isinstance(error, AuthenticationFailed))
            return
        self._writer.flushed()
        self._succeed()

    def _succeed(self) -> None:
        self._idle()
        self.trouble = None
        self._measure(success=True)
        self._committed()
        self._requests.end()

    def _fail(self, what: str, error: BaseException, *, passing: bool = False) -> None:
        self._idle()
        self._measure(success=False)
        self._requests.end(error)
        if not passing and not is_retriable(error):
            raise error
        self.trouble = f"The task's source offsets could not be {what}: {error}"
        _log.warning("Source offsets of %s could not be %s: %s", self._name, what, error)

    def _measure(self, *, success: bool) -> None:
        if self._metrics is not None:
            ms = (self._clock.monotonic() - self._began) * 1000
            self._metrics.committed(ms, success=success)

    def _idle(self) -> None:
        self._step = _Step.IDLE
        self._due = self._began + self._interval_s

    def _say_if_late(self) -> None:
        late = self._clock.monotonic() - self._began > self._timeout_s
        if self._step is not _Step.IDLE and late and not self._late_said:
            self._late_said = True
            self.trouble = self.trouble or (
                "Storing the task's source offsets takes longer than offset.flush.timeout.ms"
                f" ({self._timeout_s:g} s)"
            )
            _log.warning(
                "Storing source offsets of %s takes longer than offset.flush.timeout.ms (%g s);"
                " still waiting",
                self._name,
                self._timeout_s,
            )
