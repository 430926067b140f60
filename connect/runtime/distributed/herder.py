"""The herder of a worker in a group.

It answers REST requests on the herder's thread, or refers them to the leader. Reads use the
internal topics as read so far, and do not wait for a rebalance. Leader-only operations run in a
turn of the herder's thread; other workers raise `NotLeader`, and REST forwards the request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeVar
from urllib.parse import urlsplit

from connect.clients.groups.member import GroupMember
from connect.clients.rest_client import RestClient
from connect.clock import Deadline
from connect.plugin import PartitionHealth
from connect.runtime.abstract_herder import (
    REQUEST_TIMEOUT_S,
    AbstractHerder,
    await_ready,
    merged_config,
)
from connect.runtime.connector_status import ConnectorStatus, TaskStatus, UnknownConnector
from connect.runtime.distributed.config_changes import PendingChanges
from connect.runtime.distributed.group_config import DistributedConfig, ExactlyOnceSupport
from connect.runtime.distributed.group_metrics import GroupMetrics
from connect.runtime.distributed.group_statuses import GroupStatuses
from connect.runtime.distributed.herder_thread import HerderLoop
from connect.runtime.distributed.leader_client import InternalRequests, partitions_path
from connect.runtime.distributed.membership import Membership
from connect.runtime.distributed.peer_partitions import complete_status
from connect.runtime.distributed.request_handlers import LeaderRequests
from connect.runtime.distributed.session_keys import SessionKeys
from connect.runtime.errors import NotFound
from connect.runtime.loggers import Loggers
from connect.runtime.rest_entities import (
    ConnectorInfo,
    ConnectorStateInfo,
    TaskId,
    TaskInfo,
    WorkerHealth,
)
from connect.runtime.states import InstanceId, Status, TargetState
from connect.runtime.validation.validator import Preflight
from connect.runtime.worker import Worker
from connect.storage.config_records import RestartRequest
from connect.storage.config_state import ClusterConfigState
from connect.storage.config_store import ConfigStore
from connect.storage.status_store import StatusStore

__all__ = ["DistributedHerder"]

T = TypeVar("T")

# Kept back from a stop's time for closing the stores, which have little left to write then.
_CLOSE_STORES_S = 1.0


class DistributedHerder(AbstractHerder):
    """A herder that owns its worker, stores and thread, and starts and stops them.

    It implements `connect_herder.Herder`.
    """

    def __init__(
        self,
        config: DistributedConfig,
        worker: Worker,
        configs: ConfigStore,
        statuses: StatusStore,
        *,
        url: str,
        client: RestClient | None,
        loggers: Loggers | None = None,
        preflight: Preflight | None = None,
        on_leading: Callable[[], None] = lambda: None,
        internal_path: str = "",
        wait: Callable[[threading.Event, float], object] = threading.Event.wait,
    ) -> None:
        """Create a herder.

        `url` is this worker's, as others reach it. `client` sends requests to other workers, at
        `internal_path` below their URLs; None disables them. For `on_leading` and `wait` see
        `HerderLoop`.
        """
        super().__init__(worker, statuses, loggers=loggers, preflight=preflight)
        self._config = config
        self._configs = configs
        self._keys = SessionKeys(config)
        self._metrics = GroupMetrics(worker.clock)
        self._url, self._client, self._internal_path = url, client, internal_path
        self._loop = HerderLoop(
            config,
            worker,
            configs,
            statuses,
            self._make_member,
            url,
            self._make_requests,
            self._restart_plan,
            self._loggers.set,
            metrics=self._metrics,
            on_leading=on_leading,
            publishes_itself=client is None and not config.exactly_once.fences_leaders,
            wait=wait,
        )
        self._statuses = GroupStatuses(
            statuses,
            self._loop.membership,
            self._loop.why_unassigned,
            worker.clock,
            worker_id=worker.worker_id,
        )
        worker.statuses.listener = self._statuses.note
        statuses.set_listener(self._loop.show_again)
        self._do = LeaderRequests(self._loop, configs, self._restart_plan)

    def start(self, deadline: Deadline) -> None:
        """Read the internal topics, and start to join the group. Closes everything after an
        error.
        """
        opened: list[Callable[[], None]] = []
        try:
            for topic, begin, end in (
                ("offset", self._worker.start, self._worker.stop),
                ("status", self._status_store.start, self._status_store.stop),
                ("config", self._start_configs, self._configs.stop),
            ):
                opened.append(lambda end=end: end(self._deadline(_CLOSE_STORES_S)))  # type: ignore[misc]
                with self._loop.stages.during(f"creating or reading the {topic} storage topic"):
                    begin(deadline)
            self._loop.start()
        except Exception:
            self._loop.stop(self._deadline(_CLOSE_STORES_S))
            for close in reversed(opened):
                close()
            self._ended = True
            raise
        self._metrics.show(
            self._worker.metrics,
            self._loop.member.metrics,
            self._worker.config.originals.get("client.id") or f"connect-{self._worker.worker_id}",
            self._loop.membership,
        )

    def await_ready(self, timeout_s: float) -> bool:
        """Wait until the worker has joined its group. Return False after the timeout.

        Raises the errors of `check`.
        """
        joined = self._loop.ready.wait(timeout_s)
        self.check()
        return joined

    def check(self) -> None:
        """Raise the error that ended the herder, if any."""
        if self._loop.failure is not None:
            raise self._loop.failure

    @property
    def ended(self) -> bool:
        """Whether `stop` was called."""
        return self._ended is not None

    def health(self) -> WorkerHealth:
        loop = self._loop
        ready = loop.ready.is_set()
        outside = loop.why_outside() if ready else None
        return WorkerHealth(ready, loop.stages.summary(), loop.leading.trouble, outside)

    @property
    def is_leader(self) -> bool:
        """Whether this worker led its group in the last rebalance."""
        return self._loop.membership.is_leader

    # Read requests.

    def connectors(self) -> list[str]:
        return self._snapshot().connectors()

    def connector_info(self, name: str) -> ConnectorInfo:
        state = self._snapshot()
        config = state.raw_connector_config(name)
        if config is None:
            raise NotFound(f"Connector {name} not found")
        return self._info(name, config, len(state.tasks(name)))

    def task_infos(self, name: str) -> list[TaskInfo]:
        state = self._snapshot()
        if not state.contains(name):
            raise NotFound(f"Connector {name} not found")
        configs = state.raw_task_configs(name)
        return [TaskInfo(TaskId(name, number), config) for number, config in enumerate(configs)]

    def status(self, name: str) -> ConnectorStatus:
        """Return the status of a connector and its tasks on all workers.

        Instances on this worker include their partitions. An instance that no worker runs, as far
        as this worker knows, is UNASSIGNED, whatever its last written status. Raises
        `UnknownConnector`.
        """
        if not self._snapshot().contains(name):
            raise UnknownConnector(f"Connector {name} not found")
        here = self._partitions_here(name)
        return ConnectorStatus(
            name,
            self._statuses.now(InstanceId(name)),
            tuple(
                TaskStatus.seen_here(task.task, self._statuses.now(task), here.get(task.task))
                for task in self._snapshot().tasks(name)
            ),
        )

    def group_status(self, name: str) -> ConnectorStatus:
        requests = self._loop.leader_requests
        return complete_status(self.status(name), requests, urlsplit(self._url).scheme)

    def _partitions_here(self, name: str) -> dict[int, Sequence[PartitionHealth]]:
        return {
            host.instance.task: host.health()
            for host in self._loop.work.task_hosts()
            if host.instance.connector == name and host.alive
        }

    # Changes of configs and target states.

    def put_connector_config(
        self,
        name: str,
        config: Mapping[str, str | None],
        *,
        allow_replace: bool,
        initial_state: TargetState | None = None,
    ) -> tuple[bool, ConnectorInfo]:
        deadline = self._deadline(REQUEST_TIMEOUT_S)
        checked = self._checked_config(name, config, deadline)
        created, tasks = self._run(
            f"writing a config for connector {name} to the config topic",
            lambda: self._do.put(name, checked, initial_state, allow_replace=allow_replace),
            deadline,
        )
        return created, self._info(name, checked, tasks)

    def patch_connector_config(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        """Apply a patch on the leader only, so that concurrent patches are not lost."""
        stage = f"writing a config for connector {name} to the config topic"
        deadline = self._deadline(REQUEST_TIMEOUT_S)
        while True:
            self._run(stage, self._do.need_leader, deadline)
            base = self.connector_config(name)
            checked = self._checked_config(name, merged_config(base, patch), deadline)
            tasks = self._run(stage, partial(self._do.replace, name, base, checked), deadline)
            if tasks is not None:
                return self._info(name, checked, tasks)

    def delete_connector(self, name: str) -> None:
        self._run(
            f"removing the config of connector {name} from the config topic",
            lambda: self._do.delete(name),
        )

    def stop_connector(self, name: str) -> None:
        self._run(f"stopping connector {name}", lambda: self._do.stop(name))

    # Restarts.

    def _begin_restart(self, name: str) -> Future[None]:
        return self._run(f"restarting connector {name}", lambda: self._do.restart_connector(name))

    def restart_connector_and_tasks(
        self, name: str, *, only_failed: bool, include_tasks: bool
    ) -> ConnectorStateInfo:
        request = RestartRequest(name, only_failed=only_failed, include_tasks=include_tasks)
        return self._run(
            f"restarting connector {name} and its tasks",
            lambda: self._do.request_restart(request),
        )

    def restart_task(self, task: TaskId) -> None:
        instance = InstanceId(task.connector, task.task)
        self._run(f"restarting task {instance}", lambda: self._do.restart_task(instance))

    # Loggers of all workers.

    def set_cluster_logger(self, name: str, level: str) -> None:
        """Set a log level on every worker, as soon as it reads the record."""
        self._loggers.check_level(level)
        self._configs.put_logger_level(name, level)

    # Requests between workers.

    def put_task_configs(
        self,
        name: str,
        parse: Callable[[bytes], Sequence[Mapping[str, str]]],
        signature: tuple[str | None, str | None],
        body: bytes,
    ) -> None:
        self._check_signature(signature, body)
        configs = parse(body)
        self._run(
            f"writing task configs of connector {name}",
            lambda: self._do.put_task_configs(name, configs),
        )

    def fence_zombies(
        self, name: str, signature: tuple[str | None, str | None], body: bytes
    ) -> None:
        self._check_signature(signature, body)
        self._fence(name, self._deadline(REQUEST_TIMEOUT_S))

    def task_partitions(
        self, name: str, signature: tuple[str | None, str | None]
    ) -> Mapping[int, Sequence[PartitionHealth]]:
        self._check_signature(signature, partitions_path(name).encode())
        return self._partitions_here(name)

    def _fence(self, name: str, deadline: Deadline) -> None:
        """Return when the connector's earlier tasks can no longer write."""
        stage = f"fencing out earlier tasks of connector {name}"
        fenced = self._run(stage, lambda: self._do.fence(name), deadline)
        await_ready(
            fenced,
            deadline,
            f"Fencing out earlier tasks of connector {name} has not finished in time; retry later",
        )

    # Methods of the base class.

    def _raw_config(self, name: str) -> Mapping[str, str] | None:
        return self._snapshot().raw_connector_config(name)

    def _status(self, instance: InstanceId) -> Status | None:
        return self._statuses.get(instance)

    def _task_statuses(self, name: str) -> Mapping[int, Status]:
        return self._statuses.tasks_of(name)

    # Internal methods.

    def _snapshot(self) -> ClusterConfigState:
        return self._configs.snapshot()

    def _start_configs(self, deadline: Deadline) -> None:
        self._configs.set_listener(self._loop.changes)
        self._configs.start(deadline)

    def _make_member(self, membership: Membership) -> GroupMember:
        config, originals = self._config, self._worker.config.originals
        client_id = originals.get("client.id") or f"connect-{self._worker.worker_id}"
        return GroupMember(
            {**originals, "client.id": client_id},
            config.group_id,
            config.timeouts,
            membership,
            self._worker.clock,
            lambda: self._loop.stages.summary(),
        )

    def _make_requests(self, changes: PendingChanges) -> InternalRequests:
        return InternalRequests(
            self._client,
            self._config.signature_algorithm,
            lambda: changes.session_key,
            self._internal_path,
        )

    def _run(self, stage: str, request: Callable[[], T], deadline: Deadline | None = None) -> T:
        """Run a request on the herder's thread. `deadline`: of the REST request that it is a part
        of, which may have taken a part of its time already."""

        def staged() -> T:
            with self._loop.stages.during(stage):
                return request()

        left_s = REQUEST_TIMEOUT_S if deadline is None else deadline.remaining()
        return self._loop.run(staged, left_s)

    def _set_target(self, name: str, target: TargetState) -> None:
        """Write a target state. Any worker may do so."""
        if not self._snapshot().contains(name):
            raise NotFound(f"Unknown connector {name}")
        self._configs.put_target_state(name, target)

    def _change_offsets(
        self, name: str, change: Callable[[Mapping[str, str], Deadline], str]
    ) -> str:
        """Change offsets as the leader on the herder's thread, so that the connector cannot start
        meanwhile.
        """
        stage = f"modifying offsets of connector {name}"
        of_request = self._deadline(REQUEST_TIMEOUT_S)
        if self._config.exactly_once is ExactlyOnceSupport.ENABLED:
            config = self._run(stage, lambda: self._do.stopped_config(name), of_request)
            if self._type_of(config) == "source":
                self._fence(name, of_request)
        # The thread must return to the group in time, or the coordinator removes the worker.
        longest_s = min(REQUEST_TIMEOUT_S, self._config.timeouts.rebalance_ms / 2000)

        def checked() -> str:
            deadline = self._deadline(longest_s)
            return change(self._worker.resolved(self._do.stopped_config(name)), deadline)

        return self._run(stage, checked, of_request)

    def _check_signature(self, signature: tuple[str | None, str | None], body: bytes) -> None:
        if self._loop.membership.signs:
            self._keys.check(self._loop.changes.session_key, signature, body)

    def _stop(self, deadline: Deadline) -> bool:
        self._metrics.hide()
        left = max(0.0, deadline.remaining() - _CLOSE_STORES_S)
        ended = self._loop.stop(self._deadline(left))
        stores = (self._status_store.stop, self._configs.stop, self._worker.stop)
        for waiting, stop in zip((3, 2, 1), stores, strict=True):
            stop(self._deadline(deadline.remaining() / waiting))
        return ended
