"""The herder of a worker without a group: it decides alone, and keeps configs in memory.

Everything that changes what runs happens on the herder's thread, one command after the other.
Connectors and tasks have threads of their own, so a slow one delays at most the command that waits
for it, for a bounded time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeVar

from connect.clock import Deadline
from connect.errors import DeadlineExceeded, TaskFailed
from connect.loop import Backoff
from connect.runtime.command_thread import CommandThread
from connect.runtime.herder import ConnectorStatus, TaskStatus, UnknownConnector
from connect.runtime.states import InstanceId, InvalidTransition, State
from connect.runtime.task_host import TaskHost, stop_tasks
from connect.runtime.task_update import update_tasks
from connect.runtime.worker import Worker
from connect.runtime.worker_connector import ConnectorHost

__all__ = ["StandaloneHerder"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

# What Java's REST server allows a request.
_COMMAND_TIMEOUT_S = 90.0
# A connector's start is to return within seconds; this is for slow logins and cold clusters.
_CONNECTOR_START_S = 60.0
# As Java's worker: what all stopping connectors together get.
_CONNECTOR_STOP_S = 5.0
# Kept back from a stop's time for closing the offset store, which then has nothing left to write.
_CLOSE_STORE_S = 0.5
# Java's backoff for connectors that fail to give task configs.
_TASK_CONFIGS_BACKOFF_S, _TASK_CONFIGS_BACKOFF_CAP_S = 0.25, 60.0


@dataclass
class _Entry:
    """One connector. Belongs to the herder's thread."""

    name: str
    config: dict[str, str]
    host: ConnectorHost
    tasks: list[TaskHost] = field(default_factory=list)
    paused: bool = False
    tasks_asked: bool = False
    """An answer to a question for task configs is under way ..."""
    ask_again: bool = False
    """... and may not know what the connector has found since."""
    backoff: Backoff = field(
        default_factory=lambda: Backoff(_TASK_CONFIGS_BACKOFF_S, _TASK_CONFIGS_BACKOFF_CAP_S)
    )


class StandaloneHerder:
    """See `herder.Herder`. Owns the worker: starts it, and stops it with itself."""

    def __init__(
        self,
        worker: Worker,
        *,
        name: str = "herder",
        connector_start_timeout_s: float = _CONNECTOR_START_S,
    ) -> None:
        self._worker = worker
        self._connector_start_timeout_s = connector_start_timeout_s
        self._commands = CommandThread(name, worker.clock)
        self._entries: dict[str, _Entry] = {}
        # What other threads may look at: replaced, never changed.
        self._view: Mapping[str, tuple[TaskHost, ...]] = {}
        self._remove_metrics: Callable[[], None] | None = None
        self._ended: bool | None = None

    def start(self, deadline: Deadline) -> None:
        """Read the stored offsets. On an error everything is closed again."""
        self._commands.start()
        try:
            self._commands.run(lambda: self._worker.start(deadline), deadline.remaining() + 1.0)
        except Exception:
            self._worker.stop(Deadline(_CLOSE_STORE_S, self._worker.clock))
            self._commands.stop(_CLOSE_STORE_S)
            self._ended = True
            raise
        self._remove_metrics = self._worker.metrics.register(
            "connect-worker-metrics", {}, self._read_metrics
        )

    def connectors(self) -> list[str]:
        return list(self._view)

    def put_connector(self, name: str, config: Mapping[str, str]) -> bool:
        resolved = self._worker.connector_config(name, config)
        return self._run(lambda: self._put(name, resolved))

    def delete_connector(self, name: str) -> None:
        self._run(lambda: self._delete(self._entry(name)))

    def pause_connector(self, name: str) -> None:
        self._run(lambda: self._pause(self._entry(name)))

    def resume_connector(self, name: str) -> None:
        self._run(lambda: self._resume(self._entry(name)))

    def restart_connector(self, name: str) -> None:
        def restart() -> None:
            entry = self._entry(name)
            self._stop_host(entry, State.RESTARTING)
            self._begin(entry)

        self._run(restart)

    def restart_task(self, name: str, task: int) -> None:
        self._run(lambda: self._restart_task(self._entry(name), task))

    def status(self, name: str) -> ConnectorStatus:
        """Does not wait for the herder's thread; works after `stop`, too."""
        hosts = self._view.get(name)
        status = self._worker.statuses.get(InstanceId(name))
        if hosts is None or status is None:
            raise UnknownConnector(f"Connector {name} not found")
        health = {host.instance.task: tuple(host.health()) for host in hosts}
        return ConnectorStatus(
            name,
            status,
            tuple(
                TaskStatus(number, task_status, health.get(number, ()))
                for number, task_status in self._worker.statuses.tasks_of(name).items()
            ),
        )

    def stop(self, deadline: Deadline) -> bool:
        """A second call does nothing and returns what the first did."""
        if self._ended is None:
            self._ended = self._stop_once(deadline)
        return self._ended

    def _stop_once(self, deadline: Deadline) -> bool:
        def stop_all() -> bool:
            return self._stop_all(deadline)

        try:
            return self._commands.run(stop_all, deadline.remaining() + _CLOSE_STORE_S)
        except DeadlineExceeded as error:
            _log.error("Stopping did not end in time: %s", error)
            return False
        finally:
            self._worker.stop(
                Deadline(max(_CLOSE_STORE_S, deadline.remaining()), self._worker.clock)
            )
            self._commands.stop(_CLOSE_STORE_S)
            if self._remove_metrics is not None:
                self._remove_metrics()

    def _run(self, command: Callable[[], T]) -> T:
        return self._commands.run(command, _COMMAND_TIMEOUT_S)

    def _entry(self, name: str) -> _Entry:
        entry = self._entries.get(name)
        if entry is None:
            raise UnknownConnector(f"Connector {name} not found")
        return entry

    def _publish(self) -> None:
        self._view = {name: tuple(entry.tasks) for name, entry in self._entries.items()}

    def _put(self, name: str, config: dict[str, str]) -> bool:
        entry = self._entries.get(name)
        if entry is None:
            entry = _Entry(name, config, self._make_host(name, config))
            self._entries[name] = entry
            self._move(name, State.UNASSIGNED)
            self._start_host(entry)
            self._publish()
            return True
        self._stop_host(entry, State.PAUSED if entry.paused else State.UNASSIGNED)
        entry.config = config
        if not entry.paused:
            self._begin(entry)
        return False

    def _make_host(self, name: str, config: Mapping[str, str]) -> ConnectorHost:
        def ask() -> None:
            self._commands.post(lambda: self._ask_for_tasks_of(host))

        host = self._worker.make_connector(name, config, ask)
        return host

    def _begin(self, entry: _Entry) -> None:
        """Start the connector again, on a fresh instance."""
        entry.host = self._make_host(entry.name, entry.config)
        self._start_host(entry)

    def _start_host(self, entry: _Entry) -> None:
        """Start the connector; its tasks follow when it has started."""
        host = entry.host
        entry.tasks_asked = entry.ask_again = False
        timeout = self._connector_start_timeout_s
        started = host.start(entry.config)
        self._commands.post(lambda: host.give_up_start(timeout), delay=timeout)

        def on_started(done: Future[None]) -> None:
            if done.exception() is None:
                self._commands.post(lambda: self._ask_for_tasks_of(host))

        started.add_done_callback(on_started)

    def _current(self, host: ConnectorHost) -> _Entry | None:
        """The entry that this host still serves."""
        entry = self._entries.get(host.instance.connector)
        return entry if entry is not None and entry.host is host else None

    def _ask_for_tasks_of(self, host: ConnectorHost) -> None:
        entry = self._current(host)
        if entry is None or not host.running:
            return
        if entry.tasks_asked:
            entry.ask_again = True
            return
        entry.tasks_asked = True
        entry.ask_again = False

        def on_answer(done: Future[tuple[type, list[dict[str, str]]]]) -> None:
            self._commands.post(lambda: self._take_tasks(host, done))

        host.tasks(int(entry.config.get("tasks.max", "1"))).add_done_callback(on_answer)

    def _take_tasks(
        self, host: ConnectorHost, answer: Future[tuple[type, list[dict[str, str]]]]
    ) -> None:
        entry = self._current(host)
        if entry is None:
            return
        entry.tasks_asked = False
        self._take_answer(entry, host, answer)
        if entry.ask_again:
            self._ask_for_tasks_of(host)

    def _take_answer(
        self,
        entry: _Entry,
        host: ConnectorHost,
        answer: Future[tuple[type, list[dict[str, str]]]],
    ) -> None:
        error = answer.exception()
        if error is not None:
            wait = entry.backoff.next()
            _log.error(
                "Connector %s gave no task configs: %s; asked again in %.1f s",
                entry.name,
                error,
                wait,
                exc_info=error,
            )
            self._commands.post(lambda: self._ask_for_tasks_of(host), delay=wait)
            return
        entry.backoff.reset()
        task_class, configs = answer.result()
        if self._too_many(entry, len(configs)):
            return
        task_class_name = self._worker.plugins.name_of(task_class)
        wanted = [{**config, "task.class": task_class_name} for config in configs]
        entry.tasks = update_tasks(
            self._worker,
            entry.name,
            entry.tasks,
            wanted,
            lambda number: self._make_task(entry, number, task_class, wanted[number]),
        )
        self._publish()

    def _too_many(self, entry: _Entry, count: int) -> bool:
        limit = int(entry.config.get("tasks.max", "1"))
        if count <= limit:
            return False
        text = (
            f"The connector {entry.name} has generated {count} tasks, which is greater than"
            f" tasks.max ({limit})"
        )
        if entry.config.get("tasks.max.enforce", "true").strip().lower() == "false":
            _log.warning("%s; tasks.max.enforce=false allows it", text)
            return False
        error = TaskFailed(f"{text}; this is a bug of the connector, or raise tasks.max")
        _log.error("%s", error)
        self._move(entry.name, State.FAILED, str(error))
        return True

    def _make_task(
        self, entry: _Entry, number: int, task_class: type, config: Mapping[str, str]
    ) -> TaskHost:
        return self._worker.make_task(
            InstanceId(entry.name, number),
            task_class,
            entry.config,
            config,
            paused=entry.paused,
        )

    def _restart_task(self, entry: _Entry, number: int) -> None:
        if not 0 <= number < len(entry.tasks):
            raise UnknownConnector(f"Connector {entry.name} has no task {number}")
        old = entry.tasks[number]
        stop_tasks([old], Deadline(self._graceful_s, self._worker.clock))
        self._worker.statuses.move(old.instance, State.RESTARTING)
        entry.tasks[number] = self._worker.remake_task(old, entry.config, paused=entry.paused)
        entry.tasks[number].start()
        self._publish()

    def _pause(self, entry: _Entry) -> None:
        if entry.paused:
            return
        entry.paused = True
        for task in entry.tasks:
            task.set_paused(True)
        if not self._is_failed(entry.name):
            self._stop_host(entry, State.PAUSED)

    def _resume(self, entry: _Entry) -> None:
        if not entry.paused:
            return
        entry.paused = False
        if not self._is_failed(entry.name):
            self._begin(entry)
        for task in entry.tasks:
            task.set_paused(False)

    def _delete(self, entry: _Entry) -> None:
        entry.host.request_stop()
        stop_tasks(entry.tasks, Deadline(self._graceful_s, self._worker.clock))
        self._stop_host(entry, State.UNASSIGNED)
        for task in entry.tasks:
            self._worker.statuses.forget(task.instance)
        self._worker.statuses.forget(InstanceId(entry.name))
        del self._entries[entry.name]
        self._publish()

    def _stop_all(self, deadline: Deadline) -> bool:
        clock = self._worker.clock
        left = max(0.0, deadline.remaining() - _CLOSE_STORE_S)
        tasks_deadline = Deadline(min(self._graceful_s, left), clock)
        hosts_deadline = Deadline(min(_CONNECTOR_STOP_S, left), clock)
        for entry in self._entries.values():
            entry.host.request_stop()
        tasks = [task for entry in self._entries.values() for task in entry.tasks]
        ended = stop_tasks(tasks, tasks_deadline)
        for entry in self._entries.values():
            ended &= entry.host.join(hosts_deadline)
            if not self._is_failed(entry.name):
                self._move(entry.name, State.UNASSIGNED)
        return ended

    def _stop_host(self, entry: _Entry, state: State) -> None:
        entry.host.request_stop()
        entry.host.join(Deadline(_CONNECTOR_STOP_S, self._worker.clock))
        self._move(entry.name, state)

    def _is_failed(self, name: str) -> bool:
        status = self._worker.statuses.get(InstanceId(name))
        return status is not None and status.state is State.FAILED

    def _move(self, name: str, state: State, trace: str | None = None) -> None:
        try:
            self._worker.statuses.move(InstanceId(name), state, trace)
        except InvalidTransition as error:
            _log.warning("%s", error)

    @property
    def _graceful_s(self) -> float:
        return self._worker.config.task_shutdown_graceful_timeout_s

    def _read_metrics(self) -> Mapping[str, float]:
        """On whatever thread exposes metrics."""
        view = self._view
        return {
            "connector-count": float(len(view)),
            "task-count": float(sum(len(tasks) for tasks in view.values())),
        }
