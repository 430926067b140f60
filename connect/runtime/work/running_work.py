"""Starts, changes and stops the tasks that a worker runs, and its connectors.

Its herder decides what runs: a standalone herder everything, a herder of a group the assigned work.
A connector or task that cannot be created is FAILED with the reason. It still counts as running,
and does not affect others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from connect.clock import Deadline
from connect.errors import ConfigError, TaskFailed
from connect.plugin import Connector, TransferTask
from connect.runtime.states import InstanceId, State, TargetState
from connect.runtime.tasks.configs import check_task_count
from connect.runtime.tasks.host import TaskHost, stop_tasks
from connect.runtime.tasks.live_keys import with_live
from connect.runtime.thread_dumps import error_trace
from connect.runtime.work.provided_values import ProvidedValues
from connect.runtime.work.running_connectors import (
    CONNECTOR_START_S,
    RunningConnectors,
    TasksWanted,
    release,
    unless_told,
)
from connect.runtime.work.task_reconfiguration import (
    RunningTask,
    TaskRenewal,
    commit_soon,
    resolved,
)
from connect.runtime.work.task_run import TaskRun
from connect.runtime.worker import Worker
from connect.storage.config_state import ClusterConfigState

__all__ = ["RunningWork", "TasksWanted"]

_log = logging.getLogger(__name__)

_CLASS = "connector.class"


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
        connector_start_timeout_s: float = CONNECTOR_START_S,
    ) -> None:
        self._worker = worker
        self._statuses = worker.statuses
        self._configs = configs
        self._begin_run = begin_run
        self.connectors = RunningConnectors(
            worker, later, tasks_wanted, expired, connector_start_timeout_s
        )
        self._tasks: dict[InstanceId, RunningTask] = {}
        self._frozen: set[InstanceId] = set()
        self.renewal = TaskRenewal(worker, self._tasks, lambda: self._frozen, self.restart_tasks)
        """Applies newer configs to tasks."""
        self._values = ProvidedValues(worker, later, self._tasks, configs, self._renew_values)
        self._statuses.on_failure = self._note_failure

    def _note_failure(self, instance: InstanceId, trace: str) -> None:
        """Tell the connector's class, if it has one. Called on any thread."""
        config: Mapping[str, str] | None = None
        number = instance.task if instance.is_task else None
        if number is None:
            config = self.connectors.known_config(instance.connector)
        elif (task := self._tasks.get(instance)) is not None:
            config = task.connector_config
        try:
            connector_class = _class_to_tell(self._worker, config or {})
            if connector_class is not None:
                connector_class.note_failure(config or {}, instance.connector, number, trace)
        except Exception:  # noqa: BLE001 - a plugin's
            _log.exception(
                "Noting the failure of connector %s failed; this is a defect of the plugin: report "
                "it to its author, with the trace",
                instance.connector,
            )

    @property
    def running(self) -> set[InstanceId]:
        """The connectors and tasks that were started and not stopped, including FAILED ones."""
        return {InstanceId(name) for name in self.connectors.names} | set(self._tasks)

    def task_hosts(self) -> list[TaskHost]:
        """Return a snapshot of the task hosts, for other threads."""
        return [task.host for task in list(self._tasks.values()) if task.host is not None]

    def set_target(self, name: str, target: TargetState) -> None:
        """Pause, stop or resume this worker's part of the connector."""
        for instance, task in self._tasks.items():
            if instance.connector == name and task.host is not None:
                task.host.set_paused(target is not TargetState.STARTED)
        self.connectors.set_target(name, target)

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
            release(self._statuses, task)

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
        self.connectors.drop([each.connector for each in instances if not each.is_task])
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
        hosts = self.connectors.request_stop()
        _cancel(self._tasks.values())
        self._disown(self._frozen & self._tasks.keys())
        graceful = Deadline(min(self._graceful_s, left), clock)
        ended = stop_tasks(self.task_hosts(), graceful)
        running = sorted(self.running)
        ended &= self.connectors.join_all(hosts, deadline)
        for instance in running:
            release(self._statuses, instance, keep=keep_statuses)
        self._tasks.clear()
        return ended

    def _renew_values(self, tasks: Sequence[InstanceId]) -> None:
        """Restart tasks that have old values of config providers."""
        self.restart_tasks([task for task in tasks if task not in self._frozen], self._configs())

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
                "Task %s cannot be started: %s", instance, error, exc_info=unless_told(error)
            )
            self._statuses.try_move(instance, State.FAILED, error_trace(error))

    def _end_tasks(self, tasks: Collection[InstanceId]) -> None:
        entries = [self._tasks.pop(task) for task in tasks if task in self._tasks]
        self.renewal.ended(tasks)
        _cancel(entries)
        hosts = [entry.host for entry in entries if entry.host is not None]
        stop_tasks(hosts, Deadline(self._graceful_s, self._worker.clock))

    @property
    def _graceful_s(self) -> float:
        return self._worker.config.task_shutdown_graceful_timeout_s


def _class_to_tell(worker: Worker, config: Mapping[str, str]) -> type[Connector] | None:
    """Return the class; None if there is none, or if the worker does not permit the config: it
    failed for that, and may name files and hosts that the class must not use."""
    if _CLASS not in config:
        return None
    try:
        connector_class = worker.plugins.connector(config[_CLASS])
        worker.permissions.check(connector_class, config)
    except ConfigError:
        return None
    return connector_class


def _cancel(tasks: Iterable[RunningTask]) -> None:
    """Cancel the tasks' exactly-once checks, which must not wait for the thread that stops them."""
    for task in tasks:
        if task.run is not None:
            task.run.cancel()
