"""The connectors and tasks of the standalone herder: all configured ones run here.

Everything here runs on the herder's thread. Connectors and tasks have their own threads, so a slow
one delays only the command that waits for it, for a bounded time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future

from connect.clock import Deadline
from connect.errors import ConnectError
from connect.futures import settle
from connect.runtime.errors import NotFound
from connect.runtime.restart_plan import RestartPlan
from connect.runtime.standalone.command_thread import CommandThread
from connect.runtime.states import InstanceId, State, TargetState
from connect.runtime.work.running_work import RunningWork
from connect.runtime.work.task_config_publisher import TaskConfigPublisher
from connect.runtime.worker import Worker
from connect.storage.config_state import ClusterConfigState
from connect.storage.memory_status_store import MemoryConfigStore

__all__ = ["StandaloneConnectors"]


class StandaloneConnectors:
    """Starts, changes and stops connectors on `worker`.

    `configs` and `work.task_hosts` may be used from any thread, everything else on the thread of
    `commands`.
    """

    def __init__(
        self, worker: Worker, commands: CommandThread, connector_start_timeout_s: float
    ) -> None:
        self._worker = worker
        self._store = MemoryConfigStore(transform=lambda _, raw: worker.resolved(raw))
        self._ready: dict[str, Future[None]] = {}
        """Done when the connector has started and generated task configs, or failed."""
        self._commands = commands
        self.work: RunningWork = RunningWork(
            worker,
            commands.post,
            lambda: self.configs,
            lambda name: self._publisher.wanted(name),
            self.restart,
            lambda task: None,
            connector_start_timeout_s,
        )
        self._publisher: TaskConfigPublisher = TaskConfigPublisher(
            worker, self.work.connectors, self, commands.post, worker.clock
        )

    @property
    def configs(self) -> ClusterConfigState:
        """The submitted configs, with config provider references unresolved."""
        return self._store.snapshot()

    def put(self, name: str, config: Mapping[str, str], target: TargetState | None) -> Future[None]:
        """Apply a validated config.

        `target` None keeps the target state, STARTED for a new connector. The future completes when
        the connector has started and has its tasks.
        """
        before = self.configs
        self._store.put_connector_config(name, config, target)
        if not before.contains(name):
            if target is None:
                self._store.put_target_state(name, TargetState.STARTED)
            self._worker.statuses.try_move(InstanceId(name), State.UNASSIGNED)
        elif target in (None, before.target_state(name)) and self._goes_on(name):
            self.work.renewal.take_live(self.configs)
            return self._ready[name]
        return self._begin(name, State.UNASSIGNED)

    def _goes_on(self, name: str) -> bool:
        """Return whether the connector is ready and its newer config matters only to its tasks."""
        return self._ready[name].done() and self.work.connectors.keeps_running(name, self.configs)

    def delete(self, name: str) -> None:
        """Stop the connector and its tasks and remove them."""
        configs = self.need(name)
        self._publisher.forget(name)
        self.work.destroy([*configs.tasks(name), InstanceId(name)])
        self._stopped_early(name)
        del self._ready[name]
        self._store.remove_connector_config(name)

    def set_target(self, name: str, target: TargetState) -> None:
        """Pause, stop or resume a connector."""
        if self.need(name).target_state(name) is target:
            return
        self._store.put_target_state(name, target)
        if target is TargetState.STOPPED:
            # A stopped connector has no tasks.
            self.work.destroy(self.configs.tasks(name))
            self._store.put_task_configs(name, [])
        self._stopped_early(name)
        self.work.set_target(name, target)

    def restart(self, name: str) -> Future[None]:
        """Stop and start the connector without its tasks. The future completes when it has
        started.
        """
        self.need(name)
        return self._begin(name, State.RESTARTING)

    def restart_task(self, task: InstanceId) -> None:
        """Stop and start one task, whatever its state."""
        if task not in self.need(task.connector).tasks(task.connector):
            raise NotFound(f"Unknown task: {task}")
        self.work.restart_tasks([task], self.configs)

    def restart_planned(self, plan: RestartPlan) -> None:
        """Restart the planned instances that still exist."""
        name = plan.request.connector
        tasks = [task for task in self.need(name).tasks(name) if task.task in plan.tasks]
        self.work.restart_tasks(tasks, self.configs)
        if plan.restart_connector:
            self._begin(name, State.RESTARTING)

    def stop_all(self, deadline: Deadline) -> bool:
        """Stop everything and store final offsets. Return False if something did not end in
        time.
        """
        ended = self.work.end_all(deadline, keep_statuses=True)
        for name in self._ready:
            self._settle(name, ConnectError("Worker is shutting down"))
        return ended

    def need(self, name: str) -> ClusterConfigState:
        """Return the configs if they contain this connector. Raises `NotFound` otherwise."""
        configs = self.configs
        if not configs.contains(name):
            raise NotFound(f"Connector {name} not found")
        return configs

    # For `TaskConfigPublisher`.

    def commit_task_configs(self, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        """Store the configs, and update the tasks."""
        self._store.put_task_configs(connector, configs)
        self.work.update_tasks(connector, self.configs)

    def task_configs_answered(self, connector: str) -> None:
        self._settle(connector)

    def _begin(self, name: str, meanwhile: State) -> Future[None]:
        """Stop the connector if it runs, and bring it to its target state."""
        self._stopped_early(name)
        ready = self._ready[name] = Future()
        target = self.configs.target_state(name)
        started = self.work.connectors.restart(
            name, self.configs, shown=meanwhile is State.RESTARTING
        )

        def settle() -> None:
            error = started.exception()
            if self._ready.get(name) is ready and (error or target is not TargetState.STARTED):
                self._settle(name, error)

        if started.done():
            settle()
        else:
            started.add_done_callback(lambda _: self._commands.post(0.0, settle))
        return ready

    def _stopped_early(self, name: str) -> None:
        self._settle(name, ConnectError(f"Connector {name} was stopped before it started"))

    def _settle(self, name: str, error: BaseException | None = None) -> None:
        """Complete the futures that wait for the connector."""
        ready = self._ready.get(name)
        if ready is not None and not ready.done():
            settle(ready, error)
