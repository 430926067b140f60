"""Starts, changes and stops the connectors and tasks that a worker runs.

Its herder decides what runs: a standalone herder everything, a herder of a group the assigned work.
A connector or task that cannot be created is FAILED with the reason. It still counts as running,
and does not affect others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from connect.clock import Deadline
from connect.errors import ConnectError, TaskFailed
from connect.futures import settle
from connect.plugin import TransferTask
from connect.runtime.states import InstanceId, State, TargetState
from connect.runtime.tasks.configs import check_task_count
from connect.runtime.tasks.host import TaskHost, stop_tasks
from connect.runtime.tasks.live_keys import with_live
from connect.runtime.thread_dumps import error_trace
from connect.runtime.work.failure_notes import note_failure
from connect.runtime.work.provided_values import ProvidedValues
from connect.runtime.work.task_reconfiguration import (
    RunningTask,
    TaskRenewal,
    commit_soon,
    only_live,
    resolved,
    resolved_or_none,
)
from connect.runtime.work.task_run import TaskRun
from connect.runtime.worker import Worker
from connect.runtime.worker_connector import WorkerConnector
from connect.storage.config_state import ClusterConfigState

__all__ = ["RunningWork", "TasksWanted"]

_log = logging.getLogger(__name__)

# As in Java's worker: the total time for stopping all connectors.
_CONNECTOR_STOP_S = 5.0
# A connector must start within seconds; this leaves room for slow logins and cold clusters.
_CONNECTOR_START_S = 60.0

TasksWanted = Callable[[str], None]
"""Called on any thread when a connector must be asked for task configs."""


@dataclass
class _Connector:
    """One connector. `host` is None if it is paused, stopped, or cannot be created."""

    config: Mapping[str, str] = field(repr=False)
    raw: Mapping[str, str] | None = field(repr=False)
    target: TargetState
    committed: Sequence[Mapping[str, str]] = ()
    """Its task configs when it was started."""
    host: WorkerConnector | None = None


class RunningWork:
    """The running work of a worker. Only `task_hosts` is thread-safe; the rest is for the herder's
    thread.

    `later(seconds, command)` runs a command on that thread. `configs` returns the current configs.
    `tasks_wanted` is called when a connector must be asked for task configs. `expired` is called
    with a connector that must restart to get newer values from config providers. `begin_run`
    creates the run of an exactly-once task.
    """

    def __init__(
        self,
        worker: Worker,
        later: Callable[[float, Callable[[], None]], None],
        configs: Callable[[], ClusterConfigState],
        tasks_wanted: TasksWanted,
        expired: Callable[[str], object],
        begin_run: Callable[[InstanceId], TaskRun | None],
        connector_start_timeout_s: float = _CONNECTOR_START_S,
    ) -> None:
        self._worker = worker
        self._statuses = worker.statuses
        self._later = later
        self._configs = configs
        self._tasks_wanted = tasks_wanted
        self._expired = expired
        self._begin_run = begin_run
        self._connector_start_timeout_s = connector_start_timeout_s
        self._connectors: dict[str, _Connector] = {}
        self._tasks: dict[InstanceId, RunningTask] = {}
        self._frozen: set[InstanceId] = set()
        self.renewal = TaskRenewal(worker, self._tasks, lambda: self._frozen, self.restart_tasks)
        """Applies newer configs to tasks."""
        self._values = ProvidedValues(worker, later, self._tasks, configs, self._renew_values)
        self._statuses.on_failure = self._note_failure

    def _note_failure(self, instance: InstanceId, trace: str) -> None:
        """Tell the connector's class. Called on any thread."""
        config: Mapping[str, str] | None = None
        if not instance.is_task:
            connector = self._connectors.get(instance.connector)
            config = None if connector is None else connector.config or connector.raw
        elif (task := self._tasks.get(instance)) is not None:
            config = task.connector_config
        note_failure(self._worker, config or {}, instance, trace)

    @property
    def running(self) -> set[InstanceId]:
        """The connectors and tasks that were started and not stopped, including FAILED ones."""
        return {InstanceId(name) for name in self._connectors} | set(self._tasks)

    def host_of(self, connector: str) -> WorkerConnector | None:
        """Return the connector's host if it has started and is to run."""
        entry = self._connectors.get(connector)
        if entry is None or entry.host is None or not entry.host.running:
            return None
        return entry.host

    def config_of(self, connector: str) -> Mapping[str, str]:
        """Return the resolved config with which the connector was started."""
        return self._connectors[connector].config

    def task_hosts(self) -> list[TaskHost]:
        """Return a snapshot of the task hosts, for other threads."""
        return [task.host for task in list(self._tasks.values()) if task.host is not None]

    # Connectors.

    def begin_connector(self, name: str, configs: ClusterConfigState) -> Future[None]:
        """Bring a connector to its target state.

        The future completes when it has started, or fails with the error that made it FAILED.
        """
        ready: Future[None] = Future()
        target = configs.target_state(name) or TargetState.STARTED
        tasks = [configs.raw_task_config(task) for task in configs.tasks(name)]
        raw = configs.raw_connector_config(name)
        entry = _Connector({}, raw, target, [config for config in tasks if config is not None])
        self._connectors[name] = entry
        try:
            resolved = self._worker.resolved_for_now(raw or {})
            entry.config = resolved.values
            self._begin(name, entry, ready)
            if resolved.ttl_s is not None:
                self._later(resolved.ttl_s, lambda: self._expire(name, entry))
        except Exception as error:  # noqa: BLE001 - a plugin or provider; the status shows it
            _log.error(
                "Connector %s cannot be started: %s", name, error, exc_info=_unless_told(error)
            )
            self._statuses.try_move(InstanceId(name), State.FAILED, error_trace(error))
            ready.set_exception(error)
        return ready

    def end_connectors(self, names: Collection[str]) -> None:
        """Stop connectors and remove them; they become UNASSIGNED."""
        entries = {name: self._connectors.pop(name) for name in names if name in self._connectors}
        self._stop_hosts([entry.host for entry in entries.values()])
        for name in entries:
            self._release(InstanceId(name))

    def restart_connector(
        self, name: str, configs: ClusterConfigState, *, shown: bool
    ) -> Future[None]:
        """Stop and start a connector. `shown`: its status is RESTARTING meanwhile."""
        entry = self._connectors.pop(name, None)
        if entry is not None:
            self._stop_hosts([entry.host])
        state = State.RESTARTING if shown else State.UNASSIGNED
        self._statuses.try_move(InstanceId(name), state)
        return self.begin_connector(name, configs)

    def has_current_config(self, name: str, configs: ClusterConfigState) -> bool:
        """Return whether the connector was started from the same config record that `configs` has.
        An equal config in a later record does not count as the same.
        """
        entry = self._connectors.get(name)
        return entry is not None and entry.raw is configs.raw_connector_config(name)

    def keeps_running(self, name: str, configs: ClusterConfigState) -> bool:
        """Return whether a changed config affects only the connector's tasks; the connector then
        has it.
        """
        entry = self._connectors.get(name)
        if (
            self.host_of(name) is None
            or entry is None
            or self._statuses.is_failed(InstanceId(name))
        ):
            return False
        config = resolved_or_none(self._worker, name, configs)
        if config is None or config == entry.config:
            # As in Java, a connector whose unchanged config is submitted again is restarted.
            return False
        if not only_live(self._worker, entry.config, config):
            return False
        entry.config, entry.raw = config, configs.raw_connector_config(name)
        return True

    def set_target(self, name: str, target: TargetState) -> None:
        """Pause, stop or resume this worker's part of the connector."""
        for instance, task in self._tasks.items():
            if instance.connector == name and task.host is not None:
                task.host.set_paused(target is not TargetState.STARTED)
        entry = self._connectors.get(name)
        if entry is None or entry.target is target:
            return
        before, entry.target = entry.target, target
        if self._statuses.is_failed(InstanceId(name)) and target is not TargetState.STOPPED:
            # Only a restart ends a failure; the target state applies from then on.
            return
        _log.info("Connector %s changes from %s to %s", name, before.value, target.value)
        self._stop_hosts([entry.host])
        entry.host = None
        try:
            self._begin(name, entry, Future())
        except Exception as error:  # noqa: BLE001 - a plugin; the status shows it
            _log.error("Connector %s cannot be started: %s", name, error, exc_info=error)
            self.fail_connector(name, error)

    def fail_connector(self, name: str, error: Exception) -> None:
        self._statuses.try_move(InstanceId(name), State.FAILED, error_trace(error))

    # Tasks.

    def begin_tasks(self, tasks: Iterable[InstanceId], configs: ClusterConfigState) -> None:
        """Start tasks with their committed configs."""
        for task in tasks:
            self._begin_task(task, configs)

    def end_tasks(self, tasks: Collection[InstanceId]) -> None:
        """Stop tasks, store their final offsets and remove them; they become UNASSIGNED.

        Tasks that are not here get no status, because other workers may run them.
        """
        here = [task for task in tasks if task in self._tasks]
        self._disown(self._frozen.intersection(here))
        self._end_tasks(here)
        for task in here:
            self._release(task)

    def restart_tasks(self, tasks: Collection[InstanceId], configs: ClusterConfigState) -> None:
        """Stop and start tasks; their statuses are RESTARTING meanwhile."""
        self._end_tasks(tasks)
        for task in tasks:
            self._statuses.try_move(task, State.RESTARTING)
        self.begin_tasks(tasks, configs)

    def task_failed(self, task: InstanceId) -> bool:
        """Return whether the task could not be started or has failed since."""
        return self._statuses.is_failed(task)

    def update_tasks(self, name: str, configs: ClusterConfigState) -> None:
        """Apply committed configs to the tasks of a connector that all run here, with minimal
        interruption.

        A task must store the offsets of work that it gives up before another task reads them. The
        order is therefore: stop surplus tasks; offer changed configs, and stop the tasks that
        refuse; let changed tasks store their offsets; start new tasks.
        """
        wanted = configs.tasks(name)
        here = [task for task in self._tasks if task.connector == name]
        gone = [task for task in here if task not in wanted]
        self.destroy(gone)
        changed, over = self.renewal.offer(name, configs)
        self._end_tasks(over)
        for task in over:
            # A restart also clears the FAILED state of the old task.
            self._statuses.try_move(task, State.UNASSIGNED)
        new = [task for task in wanted if task not in self._tasks]
        if new:
            commit_soon(self._worker, changed)
        self.begin_tasks(new, configs)
        if gone or changed or new:
            _log.info(
                "Tasks of %s: %d reconfigured in place, %d restarted, %d new, %d stopped",
                name,
                len(changed),
                len(over),
                len(new) - len(over),
                len(gone),
            )

    def destroy(self, instances: Collection[InstanceId]) -> None:
        """Stop deleted connectors and tasks, and delete their statuses."""
        self._end_tasks([each for each in instances if each.is_task])
        names = [each.connector for each in instances if not each.is_task]
        entries = [self._connectors.pop(name) for name in names if name in self._connectors]
        self._stop_hosts([entry.host for entry in entries])
        for each in instances:
            self._statuses.forget(each)

    def freeze(self, tasks: Iterable[InstanceId]) -> frozenset[InstanceId]:
        """Freeze the tasks that can be frozen, and return them; the others continue.

        Transfer tasks can: all of their activity is on their own thread.
        """
        frozen = set()
        for instance in tasks:
            task = self._tasks.get(instance)
            host = None if task is None else task.host
            if host is not None and host.alive and issubclass(host.task_class, TransferTask):
                host.freeze()
                frozen.add(instance)
        self._frozen |= frozen
        return frozenset(frozen)

    def thaw(self, tasks: Collection[InstanceId]) -> None:
        """Let these frozen tasks continue and stop the other frozen ones without storing offsets.

        Another worker may have run the others meanwhile.
        """
        frozen, self._frozen = self._frozen & self._tasks.keys(), set()
        ours = frozen.intersection(tasks)
        for instance in sorted(ours):
            host = self._tasks[instance].host
            if host is not None:
                host.thaw()
        self._disown(frozen - ours)
        self.end_tasks(sorted(frozen - ours))

    def _disown(self, tasks: Iterable[InstanceId]) -> None:
        """Stop frozen tasks without storing offsets, which may be older than their new owners'."""
        deadline = Deadline(self._graceful_s, self._worker.clock)
        for instance in sorted(tasks):
            self._frozen.discard(instance)
            host = self._tasks[instance].host
            if host is not None:
                host.disown(deadline)

    def end_all(self, deadline: Deadline, *, keep_statuses: bool = False) -> bool:
        """Stop everything. Return False if something did not end in time."""
        left = max(0.0, deadline.remaining())
        clock = self._worker.clock
        hosts = [entry.host for entry in self._connectors.values() if entry.host is not None]
        for host in hosts:
            host.request_stop()
        _cancel(self._tasks.values())
        self._disown(self._frozen & self._tasks.keys())
        graceful = Deadline(min(self._graceful_s, left), clock)
        ended = stop_tasks(self.task_hosts(), graceful)
        stopping = Deadline(min(_CONNECTOR_STOP_S, max(0.0, deadline.remaining())), clock)
        for host in hosts:
            ended &= host.join(stopping)
        for instance in sorted(self.running):
            self._release(instance, keep=keep_statuses)
        self._connectors.clear()
        self._tasks.clear()
        return ended

    def _expire(self, name: str, entry: _Connector) -> None:
        """Handle expired config provider values in the connector's config."""
        if self._connectors.get(name) is entry:
            _log.info("Config provider values of connector %s have expired", name)
            self._expired(name)

    def _renew_values(self, tasks: Sequence[InstanceId]) -> None:
        """Restart tasks that have old values of config providers."""
        self.restart_tasks([task for task in tasks if task not in self._frozen], self._configs())

    def _begin(self, name: str, entry: _Connector, ready: Future[None]) -> None:
        instance = InstanceId(name)
        if entry.target is not TargetState.STARTED:
            self._worker.describe_connector(name, entry.config)
            paused = entry.target is TargetState.PAUSED
            self._statuses.try_move(instance, State.PAUSED if paused else State.STOPPED)
            ready.set_result(None)
            return
        host = self._worker.make_connector(
            name, entry.config, lambda: self._tasks_wanted(name), entry.committed
        )
        entry.host = host
        started = host.start(entry.config)
        timeout = self._connector_start_timeout_s
        self._later(timeout, lambda: host.give_up_start(timeout))

        def on_started(done: Future[None]) -> None:
            error = done.exception()
            if error is None:
                self._tasks_wanted(name)
            settle(ready, error)

        started.add_done_callback(on_started)

    def _begin_task(self, instance: InstanceId, configs: ClusterConfigState) -> None:
        raw = configs.raw_connector_config(instance.connector)
        entry = RunningTask(None, raw or {}, {})
        self._tasks[instance] = entry
        try:
            committed = resolved(self._worker, configs.raw_task_config(instance))
            if raw is None or committed is None:
                raise TaskFailed(f"Task {instance} has no committed config")
            provided = self._worker.resolved_for_now(raw)
            self._values.watch(instance.connector, provided.ttl_s)
            connector_config = provided.values
            live = self._worker.live_keys(connector_config)
            config = with_live(committed, connector_config, live)
            entry.connector_config, entry.config = connector_config, config
            check_task_count(
                instance.connector, configs.task_count(instance.connector), connector_config
            )
            target = configs.target_state(instance.connector)
            entry.run = self._begin_run(instance)
            entry.host = self._worker.make_task(
                instance,
                self._worker.task_class(connector_config, config),
                connector_config,
                config,
                paused=target is not None and target is not TargetState.STARTED,
                exactly_once=None if entry.run is None else entry.run.plan,
            )
            entry.host.start()
        except Exception as error:  # noqa: BLE001 - a plugin or provider; the status shows it
            _log.error(
                "Task %s cannot be started: %s", instance, error, exc_info=_unless_told(error)
            )
            self._statuses.try_move(instance, State.FAILED, error_trace(error))

    def _end_tasks(self, tasks: Collection[InstanceId]) -> None:
        entries = [self._tasks.pop(task) for task in tasks if task in self._tasks]
        self.renewal.ended(tasks)
        _cancel(entries)
        hosts = [entry.host for entry in entries if entry.host is not None]
        stop_tasks(hosts, Deadline(self._graceful_s, self._worker.clock))

    def _stop_hosts(self, hosts: Sequence[WorkerConnector | None]) -> None:
        found = [host for host in hosts if host is not None]
        for host in found:
            host.request_stop()
        deadline = Deadline(_CONNECTOR_STOP_S, self._worker.clock)
        for host in found:
            host.join(deadline)

    def _release(self, instance: InstanceId, *, keep: bool = False) -> None:
        """Set the instance UNASSIGNED as this worker's final status.

        A FAILED status stays until another worker writes a newer one.
        """
        if not self._statuses.is_failed(instance):
            self._statuses.try_move(instance, State.UNASSIGNED)
        if not keep:
            self._statuses.release(instance)

    @property
    def _graceful_s(self) -> float:
        return self._worker.config.task_shutdown_graceful_timeout_s


def _unless_told(error: Exception) -> Exception | None:
    """Return the error to log with its stack trace, or None if its message is enough."""
    return None if isinstance(error, ConnectError) else error


def _cancel(tasks: Iterable[RunningTask]) -> None:
    """Cancel the tasks' exactly-once checks, which must not wait for the thread that stops them."""
    for task in tasks:
        if task.run is not None:
            task.run.cancel()
