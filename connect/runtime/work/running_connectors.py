"""Starts, changes and stops the connectors that a worker runs, without their tasks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from connect.clock import Deadline
from connect.errors import ConnectError
from connect.futures import settle
from connect.runtime.states import InstanceId, State, StatusBook, TargetState
from connect.runtime.thread_dumps import error_trace
from connect.runtime.work.task_reconfiguration import only_live, resolved_or_none
from connect.runtime.worker import Worker
from connect.runtime.worker_connector import WorkerConnector
from connect.storage.config_state import ClusterConfigState

__all__ = ["CONNECTOR_START_S", "RunningConnectors", "TasksWanted", "release", "unless_told"]

_log = logging.getLogger(__name__)

# As in Java's worker: the total time for stopping all connectors.
_CONNECTOR_STOP_S = 5.0
CONNECTOR_START_S = 60.0
"""A connector must start within seconds; this leaves room for slow logins and cold clusters."""

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


class RunningConnectors:
    """The connectors of a worker. For the herder's thread; `known_config` is thread-safe."""

    def __init__(
        self,
        worker: Worker,
        later: Callable[[float, Callable[[], None]], None],
        tasks_wanted: TasksWanted,
        expired: Callable[[str], object],
        start_timeout_s: float,
    ) -> None:
        """Arguments as for `RunningWork`."""
        self._worker = worker
        self._statuses = worker.statuses
        self._later = later
        self._tasks_wanted = tasks_wanted
        self._expired = expired
        self._start_timeout_s = start_timeout_s
        self._connectors: dict[str, _Connector] = {}

    @property
    def names(self) -> Collection[str]:
        """The connectors that were started and not stopped, including FAILED ones."""
        return self._connectors.keys()

    def known_config(self, name: str) -> Mapping[str, str] | None:
        """Return the connector's config, resolved if that was possible; None if it is not here."""
        entry = self._connectors.get(name)
        return None if entry is None else entry.config or entry.raw

    def host_of(self, connector: str) -> WorkerConnector | None:
        """Return the connector's host if it has started and is to run."""
        entry = self._connectors.get(connector)
        if entry is None or entry.host is None or not entry.host.running:
            return None
        return entry.host

    def config_of(self, connector: str) -> Mapping[str, str]:
        """Return the resolved config with which the connector was started."""
        return self._connectors[connector].config

    def begin(self, name: str, configs: ClusterConfigState) -> Future[None]:
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
                "Connector %s cannot be started: %s", name, error, exc_info=unless_told(error)
            )
            self._statuses.try_move(InstanceId(name), State.FAILED, error_trace(error))
            ready.set_exception(error)
        return ready

    def end(self, names: Collection[str]) -> None:
        """Stop connectors and remove them; they become UNASSIGNED."""
        for name in self.drop(names):
            release(self._statuses, InstanceId(name))

    def restart(self, name: str, configs: ClusterConfigState, *, shown: bool) -> Future[None]:
        """Stop and start a connector. `shown`: its status is RESTARTING meanwhile."""
        entry = self._connectors.pop(name, None)
        if entry is not None:
            self._stop_hosts([entry.host])
        state = State.RESTARTING if shown else State.UNASSIGNED
        self._statuses.try_move(InstanceId(name), state)
        return self.begin(name, configs)

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
        """Pause, stop or resume a connector."""
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
            self.fail(name, error)

    def fail(self, name: str, error: Exception) -> None:
        self._statuses.try_move(InstanceId(name), State.FAILED, error_trace(error))

    def drop(self, names: Collection[str]) -> list[str]:
        """Stop connectors and remove them. Returns those that were here."""
        entries = {name: self._connectors.pop(name) for name in names if name in self._connectors}
        self._stop_hosts([entry.host for entry in entries.values()])
        return list(entries)

    def request_stop(self) -> list[WorkerConnector]:
        """Ask all connectors to end. Returns their hosts; does not wait."""
        hosts = [entry.host for entry in self._connectors.values() if entry.host is not None]
        for host in hosts:
            host.request_stop()
        return hosts

    def join_all(self, hosts: Sequence[WorkerConnector], deadline: Deadline) -> bool:
        """Wait until they have ended, and forget all. Return False if one was abandoned."""
        left = min(_CONNECTOR_STOP_S, max(0.0, deadline.remaining()))
        stopping = Deadline(left, self._worker.clock)
        ended = [host.join(stopping) for host in hosts]
        self._connectors.clear()
        return all(ended)

    def _expire(self, name: str, entry: _Connector) -> None:
        """Handle expired config provider values in the connector's config."""
        if self._connectors.get(name) is entry:
            _log.info("Config provider values of connector %s have expired", name)
            self._expired(name)

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
        timeout = self._start_timeout_s
        self._later(timeout, lambda: host.give_up_start(timeout))

        def on_started(done: Future[None]) -> None:
            error = done.exception()
            if error is None:
                self._tasks_wanted(name)
            settle(ready, error)

        started.add_done_callback(on_started)

    def _stop_hosts(self, hosts: Sequence[WorkerConnector | None]) -> None:
        found = [host for host in hosts if host is not None]
        for host in found:
            host.request_stop()
        deadline = Deadline(_CONNECTOR_STOP_S, self._worker.clock)
        for host in found:
            host.join(deadline)


def release(statuses: StatusBook, instance: InstanceId, *, keep: bool = False) -> None:
    """Set the instance UNASSIGNED as this worker's final status.

    A FAILED status stays until another worker writes a newer one.
    """
    if not statuses.is_failed(instance):
        statuses.try_move(instance, State.UNASSIGNED)
    if not keep:
        statuses.release(instance)


def unless_told(error: Exception) -> Exception | None:
    """Return the error to log with its stack trace, or None if its message is enough."""
    return None if isinstance(error, ConnectError) else error
