"""Apply newer configs to the running tasks of one worker.

It decides which tasks must stop first and which change in place. In a group, two kinds of change
need no restart: additional work, which a task gets when all workers have stopped their outdated
tasks, and new values of the connector's `live_keys`. A worker with all tasks of a connector need
not wait for others: `offer` gives its tasks any new config.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field

from connect.clock import Deadline
from connect.plugin import TransferTask
from connect.runtime.states import InstanceId
from connect.runtime.tasks.host import TaskHost
from connect.runtime.tasks.live_keys import differ_only_live, with_live
from connect.runtime.work.task_run import TaskRun
from connect.runtime.worker import Worker
from connect.storage.config_state import ClusterConfigState

__all__ = ["RunningTask", "TaskRenewal", "commit_soon", "only_live", "resolved", "resolved_or_none"]

_log = logging.getLogger(__name__)

# A task handles requests between turns of about a second; after ten turns it counts as
# unresponsive.
_RECONFIGURE_S = 10.0


@dataclass
class RunningTask:
    """A running task. `host` is None if it cannot be created. Configs are resolved; until then,
    and if that failed, `connector_config` is as the user wrote it."""

    host: TaskHost | None
    connector_config: Mapping[str, str] = field(repr=False)
    config: Mapping[str, str] = field(repr=False)
    run: TaskRun | None = None
    """Set if the task writes exactly once."""


class TaskRenewal:
    """Reconfigures running tasks. Used on the herder's thread."""

    def __init__(
        self,
        worker: Worker,
        tasks: Mapping[InstanceId, RunningTask],
        frozen: Callable[[], Collection[InstanceId]],
        restart: Callable[[Collection[InstanceId], ClusterConfigState], None],
    ) -> None:
        """Set up with the running tasks, whose configs it updates. `frozen` are the frozen ones."""
        self._worker = worker
        self._tasks = tasks
        self._frozen = frozen
        self._restart = restart
        self._growing: set[InstanceId] = set()

    def ended(self, tasks: Collection[InstanceId]) -> None:
        """Drop these stopped tasks."""
        self._growing.difference_update(tasks)

    def outdated(self, connector: str, configs: ClusterConfigState) -> list[InstanceId]:
        """Return the tasks that must stop before the newly committed configs apply.

        Tasks that only get additional work are not among them; `grow` applies their configs.
        """
        here = [instance for instance in self._tasks if instance.connector == connector]
        try:
            wanted = resolved(self._worker, configs.raw_connector_config(connector))
            return sorted(task for task in here if self._is_outdated(task, configs, wanted))
        except Exception as error:  # noqa: BLE001 - a provider's; the tasks, begun again, show it
            _log.warning("Restarting tasks of connector %s: %s", connector, error)
            return sorted(here)

    def _is_outdated(
        self,
        instance: InstanceId,
        configs: ClusterConfigState,
        connector_config: Mapping[str, str] | None,
    ) -> bool:
        task = self._tasks[instance]
        committed = resolved(self._worker, configs.raw_task_config(instance))
        self._growing.discard(instance)
        gone = instance.task >= configs.task_count(instance.connector)
        if gone or committed is None or connector_config is None:
            return True
        live = only_live(self._worker, task.connector_config, connector_config)
        if not (live and _goes_on(task)):
            return True
        config = self._as_running(committed, task)
        if task.config == config:
            return False
        if _only_adds(task, config):
            self._growing.add(instance)
            return False
        return True

    def offer(
        self, connector: str, configs: ClusterConfigState
    ) -> tuple[list[TaskHost], list[InstanceId]]:
        """Offer the connector's tasks on this worker their committed configs, whatever has changed.

        Returns the tasks that accepted changed configs, and those that must be restarted.
        """
        config = resolved_or_none(self._worker, connector, configs)
        offers: list[tuple[InstanceId, TaskHost, Mapping[str, str]]] = []
        over: list[InstanceId] = []
        for instance, task in self._tasks.items():
            if instance.connector != connector:
                continue
            committed = resolved(self._worker, configs.raw_task_config(instance))
            if (
                config is None
                or committed is None
                or task.host is None
                or not only_live(self._worker, task.connector_config, config)
            ):
                over.append(instance)
            else:
                wanted = with_live(committed, config, self._worker.live_keys(config))
                if wanted != task.config:
                    offers.append((instance, task.host, wanted))
        taken = all_offered([(host, wanted) for _, host, wanted in offers])
        changed = []
        for (instance, host, given), took in zip(offers, taken, strict=True):
            if took:
                self._tasks[instance].config = given
                changed.append(host)
            else:
                over.append(instance)
        return changed, sorted(over)

    def take_live(self, configs: ClusterConfigState) -> None:
        """Pass new values of `live_keys` to running tasks. A task that refuses them is restarted.

        Frozen tasks get them when they continue.
        """
        changed = self._with_changed_live(configs)
        answers = all_offered([(host, config) for _, host, config, _ in changed])
        for (instance, host, config, connector_config), taken in zip(changed, answers, strict=True):
            if taken:
                _log.info(
                    "Applied the connector's changed config to running task %s without a restart",
                    instance,
                )
                task = self._tasks[instance]
                task.connector_config, task.config = connector_config, config
            elif host.alive:
                self._restart([instance], configs)

    def _with_changed_live(
        self, configs: ClusterConfigState
    ) -> list[tuple[InstanceId, TaskHost, Mapping[str, str], Mapping[str, str]]]:
        """Return the tasks with changed values, their new configs, and their connectors'
        configs.
        """
        connectors: dict[str, Mapping[str, str] | None] = {}
        found: list[tuple[InstanceId, TaskHost, Mapping[str, str], Mapping[str, str]]] = []
        for instance in sorted(self._tasks.keys() - set(self._frozen())):
            name, task = instance.connector, self._tasks[instance]
            if name not in connectors:
                connectors[name] = resolved_or_none(self._worker, name, configs)
            config = connectors[name]
            if config is None or task.host is None or config == task.connector_config:
                continue
            if only_live(self._worker, task.connector_config, config):
                live = self._worker.live_keys(config)
                found.append((instance, task.host, with_live(task.config, config, live), config))
        return found

    def _as_running(self, committed: Mapping[str, str], task: RunningTask) -> Mapping[str, str]:
        """Return a task's committed config with its connector's current values of `live_keys`."""
        live = self._worker.live_keys(task.connector_config)
        return with_live(committed, task.connector_config, live)

    def grow(self, configs: ClusterConfigState) -> None:
        """Give running tasks their additional work, after all workers stopped their outdated tasks.

        A task that refuses its new config is restarted.
        """
        growing, self._growing = self._growing & self._tasks.keys(), set()
        for instance in sorted(growing):
            if not self._grow(self._tasks[instance], configs.raw_task_config(instance)):
                self._restart([instance], configs)

    def _grow(self, task: RunningTask, raw: Mapping[str, str] | None) -> bool:
        try:
            committed = resolved(self._worker, raw)
        except Exception as error:  # noqa: BLE001 - a provider's; the task, begun again, shows it
            _log.warning("Cannot resolve a task's new config: %s", error)
            return False
        if committed is None or task.host is None:
            return False
        config = self._as_running(committed, task)
        if not offered(task.host, config):
            return False
        _log.info(
            "Applied additional work to running task %s without a restart", task.host.instance
        )
        task.config = config
        return True


def resolved(worker: Worker, raw: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Return a config with config providers resolved; None stays None."""
    return None if raw is None else worker.resolved(raw)


def resolved_or_none(
    worker: Worker, name: str, configs: ClusterConfigState
) -> Mapping[str, str] | None:
    """Return a connector's resolved config, or None if there is none or a provider fails."""
    try:
        return resolved(worker, configs.raw_connector_config(name))
    except Exception as error:  # noqa: BLE001 - a provider's; who is begun anew, shows it
        _log.warning("Cannot resolve the config of connector %s: %s", name, error)
        return None


def only_live(worker: Worker, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Return whether a connector's configs differ only in keys that its tasks apply while
    running.
    """
    return before == after or differ_only_live(before, after, worker.live_keys(after))


def _only_adds(task: RunningTask, config: Mapping[str, str]) -> bool:
    host = task.host
    if host is None or not host.alive or not issubclass(host.task_class, TransferTask):
        return False
    return host.task_class.only_adds(task.config, config)


def _goes_on(task: RunningTask) -> bool:
    """Return whether a task may continue at all when its connector's task configs change."""
    if task.run is None:
        return True
    # A run that has not started yet notices the newer configs and fails.
    if task.host is None or not task.run.begun:
        return False
    kind = task.host.task_class
    return issubclass(kind, TransferTask) and kind.grows_exactly_once()


def offered(host: TaskHost, config: Mapping[str, str]) -> bool:
    """Return whether the running task accepted the config. Waits some seconds for its answer."""
    return all_offered([(host, config)])[0]


def all_offered(offers: Sequence[tuple[TaskHost, Mapping[str, str]]]) -> list[bool]:
    """Return the answers of several tasks, which are awaited together."""
    asked = [host.reconfigure(config) if host.alive else None for host, config in offers]
    deadline = Deadline(_RECONFIGURE_S)
    return [
        answer is not None and _taken(host, answer, deadline)
        for (host, _), answer in zip(offers, asked, strict=True)
    ]


def _taken(host: TaskHost, answer: Future[bool], deadline: Deadline) -> bool:
    try:
        return answer.result(max(0.0, deadline.remaining()))
    except FutureTimeout:
        _log.warning("Restarting task %s: it did not accept its new config in time", host.instance)
    except Exception as error:  # noqa: BLE001 - plugin code; a restart gives it the config, too
        _log.warning("Task %s failed to apply its new config: %s", host.instance, error)
    return False


def commit_soon(worker: Worker, hosts: Sequence[TaskHost]) -> None:
    """Wait until tasks have stored the offsets of work that they gave up."""
    deadline = Deadline(worker.config.offset_flush_timeout_s, worker.clock)
    for host, stored in [(host, host.commit_soon()) for host in hosts]:
        try:
            stored.result(deadline.remaining())
        except Exception as error:  # noqa: BLE001 - whatever it is, the cost is copying twice
            _log.warning(
                "Task %s did not store its offsets before other tasks take over its "
                "partitions; records since its last stored offsets are copied again: %s",
                host.instance,
                error or type(error).__name__,
            )
