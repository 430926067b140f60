"""A connector's thread. A connector that raises or hangs becomes FAILED and blocks nothing else.

Each connector has one thread that runs all its methods in turn. Callers get futures.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from connect.clock import Deadline
from connect.errors import ConnectError, DeadlineExceeded
from connect.futures import run_into
from connect.log_fields import OwnedThread, with_log_fields
from connect.plugin import Connector, SourceOffset, SourcePartition
from connect.runtime.states import InstanceId, InvalidTransition, State, StatusBook
from connect.runtime.thread_dumps import error_trace, where

if TYPE_CHECKING:
    from connect.metrics.registry import MetricRegistry

__all__ = ["TasksAnswer", "WorkerConnector", "WorkerConnectorContext"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

StoredOffsets = Callable[[Sequence[SourcePartition]], list[SourceOffset | None]]

TasksAnswer = tuple[type, list[dict[str, str]] | None]
"""The class of a connector's tasks and their configs. None: not known yet."""


class WorkerConnectorContext:
    """The `plugin.ConnectorContext` of one connector. Ignores calls after the host has stopped
    it.
    """

    def __init__(
        self,
        connector_name: str,
        metrics: MetricRegistry,
        reconfigure: Callable[[], None],
        failed: Callable[[Exception], None],
        troubled: Callable[[str | None], None],
        stored: StoredOffsets,
        committed: Sequence[Mapping[str, str]],
    ) -> None:
        self.committed_tasks = committed
        self._stored = stored
        self.connector_name = connector_name
        self.metrics = metrics
        self._reconfigure = reconfigure
        self._failed = failed
        self._troubled = troubled
        self._muted = threading.Event()

    def stored_offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        return self._stored(partitions)

    def request_task_reconfiguration(self) -> None:
        if not self._muted.is_set():
            self._reconfigure()

    def raise_error(self, error: Exception) -> None:
        if not self._muted.is_set():
            self._failed(error)

    def report_trouble(self, trouble: str | None) -> None:
        if not self._muted.is_set():
            self._troubled(trouble)

    def mute(self) -> None:
        """Ignore all further calls from the connector."""
        self._muted.set()


class WorkerConnector:
    """Owns one connector and its thread. Safe to use from any thread but the connector's own."""

    def __init__(
        self,
        name: str,
        connector: Connector,
        metrics: MetricRegistry,
        statuses: StatusBook,
        request_reconfiguration: Callable[[], None],
        start_decided: Callable[[bool], None] = lambda _: None,
        stored: StoredOffsets = lambda partitions: [None] * len(partitions),
        committed: Sequence[Mapping[str, str]] = (),
    ) -> None:
        """Create the host.

        `start_decided` is called once with the result of the start. `stored` and `committed` are
        for `plugin.ConnectorContext`.
        """
        self.instance = InstanceId(name)
        self.connector = connector
        self._statuses = statuses
        self._tell_start = start_decided
        self._metrics = metrics.owned()
        self._context = WorkerConnectorContext(
            name,
            self._metrics,
            request_reconfiguration,
            self._raised,
            self._in_trouble,
            stored,
            committed,
        )
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._started: Future[None] = Future()
        self._lock = threading.Lock()
        self._stop_requested = False
        self._start_decided = False
        self._trouble: str | None = None
        self._unpublished: str | None = None
        with with_log_fields(connector=name):
            self._thread = OwnedThread(self._main, f"connector-{name}")

    @property
    def running(self) -> bool:
        """Whether `start` succeeded and `stop` was not requested."""
        return (
            not self._stop_requested and self._started.done() and self._started.exception() is None
        )

    def start(self, config: Mapping[str, str]) -> Future[None]:
        """Start the connector. The future completes when it is RUNNING, or fails with the error."""
        self._calls.put(lambda: self._start(config))
        self._thread.start()
        return self._started

    def give_up_start(self, timeout: float) -> None:
        """Fail a connector that did not start within `timeout` seconds.

        Does nothing if it has started or failed since. If its `start` returns later, it is stopped.
        """
        with self._lock:
            if self._start_decided or self._stop_requested:
                return
            self._start_decided = True
        text = f"Connector {self.instance} did not start within {timeout:g} s; its stack:"
        text = f"{text}\n{where(self._thread)}"
        _log.error("%s", text)
        self._end()
        self._move(State.FAILED, text)
        self._tell_start(False)
        self._started.set_exception(DeadlineExceeded(text))

    def tasks(self, max_tasks: int) -> Future[TasksAnswer]:
        """Ask the connector for its task class and at most `max_tasks` task configs."""
        return self._call(
            lambda: (self.connector.task_class(), self.connector.task_configs(max_tasks))
        )

    def request_stop(self) -> None:
        """Ask the connector to end. Does not wait."""
        with self._lock:
            if self._stop_requested:
                return
            self._stop_requested = True
        self._end()

    def join(self, deadline: Deadline) -> bool:
        """Wait for the thread until the deadline. Return False if it was abandoned."""
        if self._thread.ident is None:
            return True
        self._thread.join(deadline.remaining())
        if not self._thread.is_alive():
            return True
        self._metrics.close()
        _log.error(
            "Connector %s did not stop in time and is abandoned: if it is a plugin, "
            "report the stack to its author. The stack:\n%s",
            self.instance,
            where(self._thread),
        )
        return False

    def _end(self) -> None:
        self._context.mute()
        self._calls.put(None)

    def _call(self, step: Callable[[], T]) -> Future[T]:
        answer: Future[T] = Future()
        if self._stop_requested or not self._thread.is_alive():
            answer.set_exception(ConnectError(f"Connector {self.instance} is not running"))
        else:
            self._calls.put(lambda: run_into(answer, step))
        return answer

    def _main(self) -> None:
        """Run the connector. This is its thread's main function."""
        while True:
            step = self._calls.get()
            if step is None:
                break
            step()
        try:
            self.connector.stop()
        except Exception:  # noqa: BLE001 - plugin code; the connector ends anyway
            _log.exception(
                "Stopping connector %s failed; this is a defect of the plugin: report it "
                "to its author, with the trace",
                self.instance,
            )
        self._metrics.close()

    def _start(self, config: Mapping[str, str]) -> None:
        error: Exception | None = None
        try:
            self.connector.initialize(self._context)
            self.connector.start(config)
        except Exception as raised:  # noqa: BLE001 - plugin code; its status shows the error
            error = raised
        with self._lock:
            if self._start_decided:
                return
            self._start_decided = True
            left_behind = self._stop_requested
        if left_behind:
            # Its herder has abandoned it and another worker may run it, so its results are ignored.
            text = f"Connector {self.instance} was stopped before it had started"
            self._started.set_exception(error or ConnectError(text))
            return
        self._tell_start(error is None)
        if error is None:
            with self._lock:
                self._move(State.RUNNING)
                # The connector may report it before it is RUNNING.
                self._statuses.annotate(self.instance, self._troubles())
            self._started.set_result(None)
            return
        _log.error("Connector %s failed to start: %s", self.instance, error, exc_info=error)
        self._move(State.FAILED, error_trace(error))
        self._end()
        self._started.set_exception(error)

    def _raised(self, error: Exception) -> None:
        _log.error("Connector %s failed: %s", self.instance, error, exc_info=error)
        self._move(State.FAILED, error_trace(error))

    def note_unpublished(self, reason: str | None) -> None:
        """Show why the connector's task configs are not committed, so that no worker runs its
        tasks.

        None: they are committed.
        """
        with self._lock:
            if reason != self._unpublished:
                self._unpublished = reason
                self._statuses.annotate(self.instance, self._troubles())

    def _in_trouble(self, trouble: str | None) -> None:
        """Show the connector's current problem in its status. Called on any thread."""
        with self._lock:
            self._trouble = trouble
            self._statuses.annotate(self.instance, self._troubles())

    def _troubles(self) -> str | None:
        return "\n".join(each for each in (self._trouble, self._unpublished) if each) or None

    def _move(self, state: State, trace: str | None = None) -> None:
        try:
            self._statuses.move(self.instance, state, trace)
        except InvalidTransition as refused:
            _log.debug("%s", refused)
