"""The connectors and tasks of the standalone herder.

Everything here belongs to the herder's thread. Connectors and tasks have threads of their own, so a
slow one delays at most the command that waits for it, for a bounded time.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from connect.clock import Deadline
from connect.errors import ConnectError, TaskFailed
from connect.loop import Backoff
from connect.runtime.errors import NotFound
from connect.runtime.restart_plan import RestartPlan
from connect.runtime.standalone.command_thread import CommandThread
from connect.runtime.standalone.task_update import all_offered, update_tasks
from connect.runtime.states import InstanceId, State, TargetState
from connect.runtime.tasks.configs import enforces_tasks_max, kept_task_configs, too_many_tasks
from connect.runtime.tasks.configs import tasks_max as allowed_tasks
from connect.runtime.tasks.host import TaskHost, stop_tasks
from connect.runtime.tasks.live_keys import differ_only_live, with_live
from connect.runtime.worker import Worker
from connect.runtime.worker_connector import TasksAnswer, WorkerConnector

__all__ = ["ConnectorView", "StandaloneConnectors"]

_log = logging.getLogger(__name__)

# As Java's worker: what all stopping connectors together get.
_CONNECTOR_STOP_S = 5.0
# Java's backoff for connectors that fail to give task configs.
_TASK_CONFIGS_BACKOFF_S, _TASK_CONFIGS_BACKOFF_CAP_S = 0.25, 60.0


@dataclass(frozen=True, slots=True)
class ConnectorView:
    """A connector's state for other threads. Configs are as they were submitted, with references to
    config providers unresolved."""

    config: Mapping[str, str]
    target: TargetState
    task_configs: tuple[Mapping[str, str], ...] = ()
    tasks: tuple[TaskHost, ...] = ()


@dataclass
class _Entry:
    """One connector. `config` is resolved; `applied` is the config the running tasks have."""

    name: str
    view: ConnectorView
    config: dict[str, str] = field(default_factory=dict)
    applied: dict[str, str] | None = None
    host: WorkerConnector | None = None
    tasks: list[TaskHost] = field(default_factory=list)
    ready: Future[None] = field(default_factory=Future)
    """Done when the connector has started and said what its tasks are, or failed to."""
    tasks_asked: bool = False
    """An answer to a question for task configs is under way ..."""
    ask_again: bool = False
    """... and may not know what the connector has found since."""
    backoff: Backoff = field(
        default_factory=lambda: Backoff(_TASK_CONFIGS_BACKOFF_S, _TASK_CONFIGS_BACKOFF_CAP_S)
    )

    @property
    def target(self) -> TargetState:
        return self.view.target

    @property
    def paused(self) -> bool:
        return self.view.target is TargetState.PAUSED


class StandaloneConnectors:
    """Starts, changes and stops connectors on `worker`. `view` may be read from any thread, all
    other methods run on the thread of `commands`."""

    def __init__(
        self, worker: Worker, commands: CommandThread, connector_start_timeout_s: float
    ) -> None:
        self._worker = worker
        self._commands = commands
        self._connector_start_timeout_s = connector_start_timeout_s
        self._entries: dict[str, _Entry] = {}
        self.view: Mapping[str, ConnectorView] = {}
        """Replaced, never changed."""

    def put(self, name: str, config: Mapping[str, str], target: TargetState | None) -> Future[None]:
        """Take over a config that was validated. `target` None: as it was, STARTED for a new
        connector. The future tells when the connector has started and has its tasks."""
        entry = self._entries.get(name)
        if entry is None:
            entry = _Entry(name, ConnectorView(dict(config), target or TargetState.STARTED))
            self._entries[name] = entry
            self._move(name, State.UNASSIGNED)
        elif target in (None, entry.target) and self._take_live(entry, config):
            return entry.ready
        else:
            if entry.host is not None:
                self._stop_host(entry, State.UNASSIGNED)
            entry.view = replace(
                entry.view, config=dict(config), target=target or entry.view.target
            )
        self._begin(entry)
        return entry.ready

    def _take_live(self, entry: _Entry, config: Mapping[str, str]) -> bool:
        """Take a config over in place, where only `live_keys` are others and the connector runs."""
        if entry.host is None or not entry.host.running or self._is_failed(entry.name):
            return False
        if entry.applied is None or not entry.ready.done():
            return False
        try:
            resolved = self._worker.resolved(config)
        except ConnectError:
            return False  # beginning it anew tells why
        live = self._worker.live_keys(resolved)
        if resolved == entry.applied or not differ_only_live(entry.applied, resolved, live):
            return False
        shown = tuple(with_live(each, config, live) for each in entry.view.task_configs)
        entry.view = replace(entry.view, config=dict(config), task_configs=shown)
        entry.applied = entry.config = resolved
        offers = [(task, with_live(task.config, resolved, live)) for task in entry.tasks]
        for number, taken in enumerate(all_offered(offers)):
            task, wanted = offers[number]
            if taken:
                continue
            task.config = wanted
            if task.alive:
                self._restart_tasks(entry, [number])
        self._publish()
        return True

    def delete(self, name: str) -> None:
        """Stop the connector and its tasks and forget them."""
        entry = self.entry(name)
        if entry.host is not None:
            entry.host.request_stop()
        stop_tasks(entry.tasks, Deadline(self._graceful_s, self._worker.clock))
        self._stop_host(entry, State.UNASSIGNED)
        for task in entry.tasks:
            self._worker.statuses.forget(task.instance)
        self._worker.statuses.forget(InstanceId(entry.name))
        del self._entries[entry.name]
        self._publish()

    def set_target(self, name: str, target: TargetState) -> None:
        """Pause, stop or resume."""
        entry = self.entry(name)
        before = entry.target
        if target is before:
            return
        entry.view = replace(entry.view, target=target)
        if target is TargetState.STOPPED:
            self._stop_tasks(entry)
            self._stop_host(entry, State.STOPPED)
        else:
            for task in entry.tasks:
                task.set_paused(entry.paused)
            if before is TargetState.STOPPED or not self._is_failed(name):
                if entry.host is not None:
                    self._stop_host(entry, State.PAUSED)
                self._begin(entry)
        self._publish()

    def restart(self, name: str) -> Future[None]:
        """Stop and start the connector itself, not its tasks. The future: when it has started."""
        entry = self.entry(name)
        self._stop_host(entry, State.RESTARTING)
        self._begin(entry)
        return entry.ready

    def restart_task(self, name: str, number: int) -> None:
        """Stop and start one task, whatever its state."""
        entry = self.entry(name)
        if not 0 <= number < len(entry.tasks):
            raise NotFound(f"Unknown task: {name}-{number}")
        self._restart_tasks(entry, [number])
        self._publish()

    def restart_planned(self, plan: RestartPlan) -> None:
        """Restart what the plan says, as far as it still exists."""
        entry = self.entry(plan.request.connector)
        numbers = [number for number in plan.tasks if number < len(entry.tasks)]
        if plan.restart_connector:
            self._stop_host(entry, State.RESTARTING)
        self._restart_tasks(entry, numbers)
        if plan.restart_connector:
            self._begin(entry)
        self._publish()

    def stop_all(self, deadline: Deadline) -> bool:
        """Stop everything, final offsets stored. False: something did not end in time."""
        clock = self._worker.clock
        left = max(0.0, deadline.remaining())
        tasks_deadline = Deadline(min(self._graceful_s, left), clock)
        hosts_deadline = Deadline(min(_CONNECTOR_STOP_S, left), clock)
        hosts = [entry.host for entry in self._entries.values() if entry.host is not None]
        for host in hosts:
            host.request_stop()
        tasks = [task for entry in self._entries.values() for task in entry.tasks]
        ended = stop_tasks(tasks, tasks_deadline)
        for host in hosts:
            ended &= host.join(hosts_deadline)
        for entry in self._entries.values():
            if not self._is_failed(entry.name):
                self._move(entry.name, State.UNASSIGNED)
            self._settle(entry, ConnectError("Worker is shutting down"))
        return ended

    def entry(self, name: str) -> _Entry:
        """Raises `NotFound`."""
        entry = self._entries.get(name)
        if entry is None:
            raise NotFound(f"Connector {name} not found")
        return entry

    def _publish(self) -> None:
        for entry in self._entries.values():
            entry.view = replace(entry.view, tasks=tuple(entry.tasks))
        self.view = {name: entry.view for name, entry in self._entries.items()}

    def _begin(self, entry: _Entry) -> None:
        """Bring a connector that is not running to its target state."""
        entry.ready = Future()
        entry.tasks_asked = entry.ask_again = False
        if entry.target is not TargetState.STARTED:
            state = State.PAUSED if entry.paused else State.STOPPED
            self._worker.describe_connector(entry.name, entry.view.config)
            self._move(entry.name, state)
            entry.ready.set_result(None)
        else:
            self._start_host(entry)
        self._publish()

    def _start_host(self, entry: _Entry) -> None:
        """Start a new instance; its tasks follow when it has started."""
        name, timeout = entry.name, self._connector_start_timeout_s

        def ask() -> None:
            self._commands.post(lambda: self._ask_for_tasks_of(host))

        try:
            resolved = self._worker.resolved_for_now(entry.view.config)
            entry.config = resolved.values
            host = self._worker.make_connector(
                name, entry.config, ask, [task.config for task in entry.tasks]
            )
        except ConnectError as error:
            # The config was right once: a provider's file may be gone, or a plugin.
            _log.error("Connector %s cannot be started: %s", name, error)
            entry.host = None
            self._move(name, State.FAILED, str(error))
            entry.ready.set_exception(error)
            return
        entry.host = host
        started = host.start(entry.config)
        self._commands.post(lambda: host.give_up_start(timeout), delay=timeout)
        if resolved.ttl_s is not None:
            self._commands.post(lambda: self._expire(host), delay=resolved.ttl_s)

        def on_started(done: Future[None]) -> None:
            error = done.exception()
            if error is None:
                self._commands.post(lambda: self._ask_for_tasks_of(host))
            else:
                self._commands.post(lambda: self._settle_host(host, error))

        started.add_done_callback(on_started)

    def _expire(self, host: WorkerConnector) -> None:
        """Values from config providers in the connector's config have expired."""
        entry = self._current(host)
        if entry is not None:
            _log.info("Config provider values of connector %s have expired", entry.name)
            self.restart(entry.name)

    def _settle_host(self, host: WorkerConnector, error: BaseException) -> None:
        entry = self._current(host)
        if entry is not None:
            self._settle(entry, error)

    def _settle(self, entry: _Entry, error: BaseException | None = None) -> None:
        """Complete the futures that wait for the connector to be ready."""
        if entry.ready.done():
            return
        if error is None:
            entry.ready.set_result(None)
        else:
            entry.ready.set_exception(error)

    def _current(self, host: WorkerConnector) -> _Entry | None:
        """The entry whose current host this is."""
        entry = self._entries.get(host.instance.connector)
        return entry if entry is not None and entry.host is host else None

    def _ask_for_tasks_of(self, host: WorkerConnector) -> None:
        entry = self._current(host)
        if entry is None or not host.running:
            return
        if entry.tasks_asked:
            entry.ask_again = True
            return
        entry.tasks_asked = True
        entry.ask_again = False

        def on_answer(done: Future[TasksAnswer]) -> None:
            self._commands.post(lambda: self._take_tasks(host, done))

        host.tasks(allowed_tasks(entry.config)).add_done_callback(on_answer)

    def _take_tasks(self, host: WorkerConnector, answer: Future[TasksAnswer]) -> None:
        entry = self._current(host)
        if entry is None:
            return
        entry.tasks_asked = False
        error = answer.exception()
        if error is not None:
            self._ask_later(entry, host, error)
        else:
            task_class, configs = answer.result()
            entry.backoff.reset()
            if configs is not None:
                self._take_configs(entry, task_class, configs)
        self._settle(entry)
        if entry.ask_again:
            self._ask_for_tasks_of(host)

    def _ask_later(self, entry: _Entry, host: WorkerConnector, error: BaseException) -> None:
        wait = entry.backoff.next()
        _log.error(
            "Cannot get task configs from connector %s: %s; retrying in %.1f s",
            entry.name,
            error,
            wait,
            exc_info=error,
        )
        self._commands.post(lambda: self._ask_for_tasks_of(host), delay=wait)

    def _take_configs(
        self, entry: _Entry, task_class: type, configs: Sequence[Mapping[str, str]]
    ) -> None:
        if self._too_many(entry, len(configs)):
            return
        name_of_class = self._worker.plugins.name_of(task_class)
        live = self._worker.live_keys(entry.config)
        kept = [
            with_live(each, entry.view.config, live)
            for each in kept_task_configs(entry.view.config, name_of_class, configs)
        ]
        wanted = [
            with_live(each, entry.config, live)
            for each in kept_task_configs(entry.config, name_of_class, configs)
        ]
        connector_changed = entry.applied is not None and entry.applied != entry.config
        entry.tasks = update_tasks(
            self._worker,
            entry.name,
            entry.tasks,
            wanted,
            lambda number: self._make_task(entry, number, task_class, wanted[number]),
            restart_all=connector_changed,
        )
        entry.applied = entry.config
        entry.view = replace(entry.view, task_configs=tuple(kept))
        self._publish()

    def _too_many(self, entry: _Entry, count: int) -> bool:
        text = too_many_tasks(entry.name, count, entry.config)
        if text is None:
            return False
        if not enforces_tasks_max(entry.config):
            _log.warning("%s tasks.max.enforce=false allows it.", text)
            return False
        error = TaskFailed(f"{text} Fix the connector, or set tasks.max.enforce=false.")
        _log.error("%s", error)
        self._move(entry.name, State.FAILED, str(error))
        return True

    def _make_task(
        self, entry: _Entry, number: int, task_class: type, config: Mapping[str, str]
    ) -> TaskHost:
        return self._worker.make_task(
            InstanceId(entry.name, number), task_class, entry.config, config, paused=entry.paused
        )

    def _restart_tasks(self, entry: _Entry, numbers: Sequence[int]) -> None:
        old = [entry.tasks[number] for number in numbers]
        stop_tasks(old, Deadline(self._graceful_s, self._worker.clock))
        for host in old:
            self._worker.statuses.move(host.instance, State.RESTARTING)
        for number, host in zip(numbers, old, strict=True):
            fresh = self._worker.remake_task(host, entry.config, paused=entry.paused)
            entry.tasks[number] = fresh
            fresh.start()

    def _stop_tasks(self, entry: _Entry) -> None:
        """A stopped connector has no tasks."""
        stop_tasks(entry.tasks, Deadline(self._graceful_s, self._worker.clock))
        for task in entry.tasks:
            self._worker.statuses.forget(task.instance)
        entry.tasks = []
        entry.applied = None
        entry.view = replace(entry.view, task_configs=())

    def _stop_host(self, entry: _Entry, state: State) -> None:
        self._settle(entry, ConnectError(f"Connector {entry.name} was stopped before it started"))
        if entry.host is not None:
            entry.host.request_stop()
            entry.host.join(Deadline(_CONNECTOR_STOP_S, self._worker.clock))
            entry.host = None
        self._move(entry.name, state)

    def _is_failed(self, name: str) -> bool:
        return self._worker.statuses.is_failed(InstanceId(name))

    def _move(self, name: str, state: State, trace: str | None = None) -> None:
        self._worker.statuses.try_move(InstanceId(name), state, trace)

    @property
    def _graceful_s(self) -> float:
        return self._worker.config.task_shutdown_graceful_timeout_s
