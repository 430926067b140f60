"""Brings the running tasks of one worker to newer configs: decides which must stop first and which
change in place.

In a group, two kinds of change need no restart: work that only comes in addition, which is given
once all workers have ended what had to end; and values of the connector's `live_keys`. A worker
that has all tasks of a connector need not wait for others: `offer` gives its tasks any new config.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass

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

# A task looks for requests between two turns of about a second; ten of these is no answer.
_RECONFIGURE_S = 10.0


@dataclass
class RunningTask:
    """`host` None: not to be made. Configs are resolved."""

    host: TaskHost | None
    connector_config: Mapping[str, str]
    config: Mapping[str, str]
    run: TaskRun | None = None
    """Where it writes exactly once."""


class TaskRenewal:
    """Reconfigures running tasks. Used on the herder's thread."""

    def __init__(
        self,
        worker: Worker,
        tasks: Mapping[InstanceId, RunningTask],
        frozen: Callable[[], Collection[InstanceId]],
        restart: Callable[[Collection[InstanceId], ClusterConfigState], None],
    ) -> None:
        """`tasks`: those that run, which it reads and whose configs it renews; `frozen`: of them
        those that stand still."""
        self._worker = worker
        self._tasks = tasks
        self._frozen = frozen
        self._restart = restart
        self._growing: set[InstanceId] = set()

    def ended(self, tasks: Collection[InstanceId]) -> None:
        """Forget these tasks, which have stopped."""
        self._growing.difference_update(tasks)

    def outdated(self, connector: str, configs: ClusterConfigState) -> list[InstanceId]:
        """The tasks here that have to end before what is committed now counts. Those for which it
        only adds work are not among them: `grow` gives it to them."""
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
        """Offer the connector's tasks here what is committed now, whatever has changed. Returns the
        tasks that took other configs, and those that must be begun anew."""
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
        """Give running tasks what their connectors' newer configs say of `live_keys`. A task that
        does not take it is restarted with it. Those that stand still get it when they go on."""
        changed = self._with_changed_live(configs)
        answers = all_offered([(host, config) for _, host, config, _ in changed])
        for (instance, host, config, connector_config), taken in zip(changed, answers, strict=True):
            if taken:
                _log.info("Task %s continues with its connector's changed config", instance)
                task = self._tasks[instance]
                task.connector_config, task.config = connector_config, config
            elif host.alive:
                self._restart([instance], configs)

    def _with_changed_live(
        self, configs: ClusterConfigState
    ) -> list[tuple[InstanceId, TaskHost, Mapping[str, str], Mapping[str, str]]]:
        """Tasks, what their configs are to be, and their connectors' configs."""
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
        """What is committed for a task, with the values that it has of its connector."""
        live = self._worker.live_keys(task.connector_config)
        return with_live(committed, task.connector_config, live)

    def grow(self, configs: ClusterConfigState) -> None:
        """Give running tasks what newer configs add for them, once all workers have ended what had
        to end. A task that does not take its config is restarted with it."""
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
        _log.info("Task %s continues with additional work", task.host.instance)
        task.config = config
        return True


def resolved(worker: Worker, raw: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """A config with what config providers know; None where there is none."""
    return None if raw is None else worker.resolved(raw)


def resolved_or_none(
    worker: Worker, name: str, configs: ClusterConfigState
) -> Mapping[str, str] | None:
    """A connector's config; None where there is none, or it cannot be had now."""
    try:
        return resolved(worker, configs.raw_connector_config(name))
    except Exception as error:  # noqa: BLE001 - a provider's; who is begun anew, shows it
        _log.warning("Cannot resolve the config of connector %s: %s", name, error)
        return None


def only_live(worker: Worker, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether a connector's configs differ in nothing that its tasks do not take as they run."""
    return before == after or differ_only_live(before, after, worker.live_keys(after))


def _only_adds(task: RunningTask, config: Mapping[str, str]) -> bool:
    host = task.host
    if host is None or not host.alive or not issubclass(host.task_class, TransferTask):
        return False
    return host.task_class.only_adds(task.config, config)


def _goes_on(task: RunningTask) -> bool:
    """Whether a task may outlive new configs of its connector at all."""
    if task.run is None:
        return True
    # A run that is not begun yet finds that there are others, and fails.
    if task.host is None or not task.run.begun:
        return False
    kind = task.host.task_class
    return issubclass(kind, TransferTask) and kind.grows_exactly_once()


def offered(host: TaskHost, config: Mapping[str, str]) -> bool:
    """Whether the running task took the config; waits some seconds for its answer."""
    return all_offered([(host, config)])[0]


def all_offered(offers: Sequence[tuple[TaskHost, Mapping[str, str]]]) -> list[bool]:
    """The same of several tasks, which are waited for together."""
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
    """Have tasks store the offsets of what they gave up; waits for it."""
    deadline = Deadline(worker.config.offset_flush_timeout_s, worker.clock)
    for host, stored in [(host, host.commit_soon()) for host in hosts]:
        try:
            stored.result(deadline.remaining())
        except Exception as error:  # noqa: BLE001 - whatever it is, the cost is copying twice
            _log.warning(
                "Task %s did not store its offsets before other tasks take over its partitions: %s",
                host.instance,
                error or type(error).__name__,
            )
