"""A task's thread: start the task, let it work, stop it within a time limit, report one that hangs.

While nothing else is to be done, the thread lends the turns of a transfer task to the worker's
engine thread (`engine_thread.py`), and takes them back for everything else.

Problems of a task affect only its own status. An exception makes it FAILED with its trace. A task
that does not stop in time is abandoned and reported; its daemon thread may continue, but is
ignored.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from typing import TypeVar

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConnectError, Interrupted
from connect.futures import run_into, settle
from connect.log_fields import OwnedThread, with_log_fields
from connect.metrics.worker_metrics import HostedTask
from connect.plugin import PartitionHealth
from connect.runtime.states import InstanceId, InvalidTransition, State, StatusBook
from connect.runtime.tasks.engine_thread import EngineThread
from connect.runtime.tasks.task import WorkerTask
from connect.runtime.tasks.turn_loan import TurnLoan
from connect.runtime.thread_dumps import error_trace, where

__all__ = ["TaskHost", "stop_tasks"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

# How often a frozen task checks for requests.
_FROZEN_LOOK_S = 0.5
# The part of a stop's time that is kept for closing: at most so many seconds and at most this
# share.
_CLOSE_S, _CLOSE_SHARE = 1.0, 0.2
# How often a task is asked for problems: soon enough for users, rarely enough for the status topic.
_TROUBLE_EVERY_S = 2.0
# How often a task that waits for the end of a turn checks whether the engine thread is blocked.
_RECALL_LOOK_S = 1.0


class TaskHost:
    """Owns one task and its thread. Its methods are safe from any thread but the task's own.

    `final_timeout_s` limits how long a task that failed may take to store its final offsets. A
    stopped task has until the deadline of `request_stop`.
    """

    def __init__(
        self,
        instance: InstanceId,
        task: WorkerTask,
        task_class: type,
        config: Mapping[str, str],
        statuses: StatusBook,
        *,
        paused: bool,
        final_timeout_s: float,
        metrics: HostedTask,
        clock: Clock = SYSTEM_CLOCK,
        engine: EngineThread | None = None,
    ) -> None:
        """Create the host. `engine`: takes the turns of a task that has a descriptor."""
        self.instance = instance
        self.task_class = task_class
        self.config = dict(config)
        self._task = task
        self._statuses = statuses
        self._final_timeout_s = final_timeout_s
        self._metrics = metrics
        self._clock = clock
        self._want_paused = paused
        self._is_paused = False
        self._lock = threading.Lock()
        self._requests: deque[Callable[[], None]] = deque()
        self._closed_to_requests = False
        self._stop_deadline: Deadline | None = None
        self._thawed = threading.Event()
        self._thawed.set()
        self._disowned = False
        self._abandoned = False
        self._started = False
        self._failed = False
        self._last_state = State.UNASSIGNED
        self._trouble: str | None = None
        self._trouble_at = 0.0
        self._engine = engine
        self._news = threading.Event()
        """Set when the task's thread has something to do while its turns are lent."""
        self._loan = TurnLoan(str(instance), self._turn_now, self._news.set)
        with with_log_fields(**_log_fields(instance)):
            self._thread = OwnedThread(self._main, f"task-{instance}")
            self._turn_context = copy_context()

    @property
    def alive(self) -> bool:
        """Whether its thread runs and the task has not failed."""
        return self._thread.is_alive() and not self._failed

    def start(self) -> None:
        self._metrics.begun()
        self._thread.start()

    def request_stop(self, deadline: Deadline) -> None:
        """Ask the task to store its final offsets and end by the deadline. Does not wait."""
        with self._lock:
            if self._stop_deadline is not None:
                return
            self._stop_deadline = deadline
        self._thawed.set()
        self._recall()
        try:
            self._task.stopping()
        except Exception:  # noqa: BLE001 - plugin code; the task is being stopped all the same
            _log.exception(
                "Asking task %s to stop failed; this is a defect of the plugin: report it"
                " to its author, with the trace",
                self.instance,
            )

    def freeze(self) -> None:
        """Freeze the task after its current turn, until `thaw` or a stop."""
        self._thawed.clear()
        self._recall()
        self._task.wake()

    def thaw(self) -> None:
        """Continue after `freeze`."""
        self._thawed.set()

    def disown(self, deadline: Deadline) -> None:
        """Ask a task to end without storing offsets, because another worker may have run it
        meanwhile.

        Its offsets may be older than the other worker's.
        """
        self._disowned = True
        self.request_stop(deadline)

    def join(self, deadline: Deadline) -> bool:
        """Wait for the thread until the deadline. Return False if it was abandoned.

        Either way the task's metrics are removed.
        """
        try:
            return self._join(deadline)
        finally:
            self._metrics.ended()

    def _join(self, deadline: Deadline) -> bool:
        if self._thread.ident is None:
            return True
        self._thread.join(deadline.remaining())
        if not self._thread.is_alive():
            return True
        with self._lock:
            self._abandoned = True
        _log.error(
            "Task %s did not stop in time and is abandoned: if its connector is a "
            "plugin, report the stack to its author. The stack:\n%s",
            self.instance,
            where(self._loan.taken_by or self._thread),
        )
        self._move(State.UNASSIGNED)
        return False

    def set_paused(self, paused: bool) -> None:
        """Pause or resume the task; its status changes when that is done."""

        def apply() -> None:
            self._want_paused = paused

        self._request(apply)

    def reconfigure(self, config: Mapping[str, str]) -> Future[bool]:
        """Offer the task a new config. False or an exception means that it must be restarted."""

        def apply() -> bool:
            taken = self._task.reconfigure(config)
            if taken:
                self.config = dict(config)
            return taken

        return self._call(apply)

    def commit_soon(self) -> Future[None]:
        """Ask the task to commit its source offsets now. Done when they are stored."""
        stored: Future[None] = Future()

        def chain(started: Future[Future[None]]) -> None:
            error = started.exception()
            if error is None:
                started.result().add_done_callback(lambda done: settle(stored, done.exception()))
            else:
                stored.set_exception(error)

        self._call(self._task.commit_soon).add_done_callback(chain)
        return stored

    def health(self) -> list[PartitionHealth]:
        """Return the health of the task's partitions; empty if the task is not running."""
        if not self.alive:
            return []
        try:
            return self._task.health()
        except Exception:  # noqa: BLE001 - plugin code; a status request must not fail for it
            _log.exception(
                "Asking task %s for its health failed; this is a defect of the plugin: "
                "report it to its author, with the trace",
                self.instance,
            )
            return []

    def _call(self, step: Callable[[], T]) -> Future[T]:
        answer: Future[T] = Future()
        if not self._request(lambda: run_into(answer, step)):
            answer.set_exception(ConnectError(f"Task {self.instance} is not running"))
        return answer

    def _request(self, step: Callable[[], None]) -> bool:
        with self._lock:
            if self._closed_to_requests:
                return False
            self._requests.append(step)
        self._recall()
        self._task.wake()
        return True

    def _recall(self) -> None:
        """Ask for the turns that are lent, and wake the task's thread. From any thread."""
        self._loan.ask_back()
        self._news.set()

    def _main(self) -> None:
        """Run the task. This is its thread's main function."""
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - the top of a task's thread
            self._fail(error)
        # The successor of an abandoned task may have stored later offsets already.
        if self._started and not self._disowned and not self._is_abandoned():
            self._finish()
        self._close()
        self._note(self._last_state)

    def _is_abandoned(self) -> bool:
        with self._lock:
            return self._abandoned

    def _work(self) -> None:
        if self._stop_deadline is not None:
            return
        self._task.start()
        self._started = True
        if self._want_paused:
            self._apply_pause()
        else:
            self._note(State.RUNNING)
        while self._stop_deadline is None:
            self._serve_requests()
            if self._want_paused != self._is_paused:
                self._apply_pause()
            if not self._may_turn():
                self._thawed.wait(_FROZEN_LOOK_S)
            elif not self._lend_turns():
                self._task.turn()
                self._show_trouble()

    def _may_turn(self) -> bool:
        """Whether the task is neither frozen nor asked to stop.

        A stop thaws it, so the stop is read last: a disowned task takes no turn.
        """
        return self._thawed.is_set() and self._stop_deadline is None

    def _lend_turns(self) -> bool:
        """Lend the turns until the thread has something to do. Return False if they cannot be lent.

        Raises the error of a turn.
        """
        engine = self._engine
        descriptor = None if engine is None else self._task.descriptor()
        # The task may have added fields when it started.
        self._turn_context = copy_context()
        if engine is None or descriptor is None or not engine.lend(self._loan, descriptor):
            self._engine = None
            return False
        try:
            while not (self._has_work() or self._loan.back):
                self._news.wait(_TROUBLE_EVERY_S)
                self._news.clear()
                self._show_trouble()
                engine.relieve()
        finally:
            self._loan.ask_back()
            while not self._loan.wait_back(_RECALL_LOOK_S):
                engine.relieve()
        return True

    def _turn_now(self) -> float:
        """Take a lent turn, on the engine thread, with the log fields of the task's own."""
        return self._turn_context.run(self._task.turn_now)

    def _has_work(self) -> bool:
        """Whether the task's thread has something to do other than turns."""
        waits = self._stop_deadline is not None or not self._thawed.is_set()
        return waits or bool(self._requests)

    def _show_trouble(self) -> None:
        """Show the task's current problem in its status, which stays RUNNING."""
        now = self._clock.monotonic()
        if now < self._trouble_at:
            return
        self._trouble_at = now + _TROUBLE_EVERY_S
        trouble = None if self._is_paused else self._task.trouble()
        if trouble != self._trouble:
            self._trouble = trouble
            self._statuses.annotate(self.instance, trouble)

    def _apply_pause(self) -> None:
        if self._want_paused:
            self._task.pause()
        else:
            self._task.resume()
        self._is_paused = self._want_paused
        self._trouble, self._trouble_at = None, 0.0
        self._note(State.PAUSED if self._is_paused else State.RUNNING)

    def _serve_requests(self) -> None:
        while self._requests:
            self._requests.popleft()()

    def _fail(self, error: Exception) -> None:
        self._failed = True
        if self._stop_deadline is not None:
            # As in Connect, the last status of a task that was told to stop is UNASSIGNED.
            if isinstance(error, Interrupted):
                _log.info("Task %s was stopped before it started: %s", self.instance, error)
            else:
                _log.warning(
                    "Task %s failed while it was stopping; nothing has to be done, it "
                    "continues after its last stored offsets",
                    self.instance,
                    exc_info=error,
                )
            return
        _log.error("Task %s failed: %s", self.instance, error, exc_info=error)
        self._last_state = State.FAILED
        self._note(State.FAILED, error_trace(error))

    def _finish(self) -> None:
        stop = self._stop_deadline or Deadline(self._final_timeout_s, self._clock)
        # A task whose cluster does not answer uses all of its time. Some is kept for closing, so
        # that it does not look hung to the thread that stops it.
        left = stop.remaining()
        deadline = Deadline(left - min(_CLOSE_S, left * _CLOSE_SHARE), self._clock)
        try:
            if not self._task.finish(deadline, failed=self._failed):
                _log.warning(
                    "Task %s ended before its final offsets were stored; the records since its"
                    " last stored offsets will be copied again",
                    self.instance,
                )
        except Exception as error:  # noqa: BLE001 - plugin code; the task ends anyway
            _log.error("Storing the final offsets of task %s failed: %s", self.instance, error)

    def _close(self) -> None:
        with self._lock:
            self._closed_to_requests = True
        self._serve_requests()
        try:
            self._task.close()
        except Exception:  # noqa: BLE001 - plugin code; the task ends anyway
            _log.exception(
                "Closing task %s failed; this is a defect of the plugin: report it to its"
                " author, with the trace",
                self.instance,
            )

    def _note(self, state: State, trace: str | None = None) -> None:
        if not self._is_abandoned():
            self._move(state, trace)

    def _move(self, state: State, trace: str | None = None) -> None:
        try:
            self._statuses.move(self.instance, state, trace)
        except InvalidTransition as error:
            # The herder already set a newer state, such as DESTROYED or RESTARTING.
            _log.debug("%s", error)
        else:
            self._metrics.state_changed(state.value.lower())


def _log_fields(instance: InstanceId) -> dict[str, str | int]:
    task = {} if instance.task is None else {"task": instance.task}
    return {"connector": instance.connector, **task}


def stop_tasks(hosts: Collection[TaskHost], deadline: Deadline) -> bool:
    """Stop these tasks at the same time. Return False if not all ended by the deadline."""
    for host in hosts:
        host.request_stop(deadline)
    ended = [host.join(deadline) for host in hosts]
    return all(ended)
