"""Handle requests on the herder's thread: permissions, checks and writes.

Only the leader writes configs. A connector or task is restarted by the worker that runs it. Other
workers refer to that worker (`NotLeader`, `NotAssigned`). Texts are Kafka Connect's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from connect.errors import ConnectError
from connect.runtime.distributed.herder_thread import HerderLoop
from connect.runtime.errors import AlreadyExists, BadRequest, NotAssigned, NotFound, NotLeader
from connect.runtime.offset_management import not_stopped
from connect.runtime.rest_entities import ConnectorStateInfo
from connect.runtime.restart_plan import RestartPlan
from connect.runtime.states import InstanceId, TargetState
from connect.storage.config_records import RestartRequest
from connect.storage.config_store import ConfigStore

__all__ = ["LeaderRequests"]


class LeaderRequests:
    """Handles requests on the herder's thread."""

    def __init__(
        self,
        loop: HerderLoop,
        configs: ConfigStore,
        plan_restart: Callable[[RestartRequest], RestartPlan],
    ) -> None:
        self._loop = loop
        self._configs = configs
        self._plan_restart = plan_restart

    def need_leader(self, message: str = "Only the leader can set connector configs.") -> None:
        """Raise `NotLeader` unless this worker leads."""
        if not self._loop.membership.is_leader:
            raise NotLeader(message, self._loop.membership.leader_url or None)

    # Configs and target states.

    def put(
        self,
        name: str,
        config: Mapping[str, str],
        initial_state: TargetState | None,
        *,
        allow_replace: bool,
    ) -> tuple[bool, int]:
        """Write a validated config. Return (whether the connector is new, its number of tasks)."""
        self.need_leader()
        exists = self._configs.contains(name)
        if exists and not allow_replace:
            raise AlreadyExists(f"Connector {name} already exists")
        self._loop.leading.write(
            lambda: self._configs.put_connector_config(name, config, initial_state)
        )
        return not exists, len(self._loop.configs.current.tasks(name)) if exists else 0

    def replace(self, name: str, base: Mapping[str, str], config: Mapping[str, str]) -> int | None:
        """Write a validated config that was derived from `base`, and return the number of tasks.

        Return None, and write nothing, if the config has changed from `base` meanwhile.
        """
        self.need_leader()
        if self._configs.snapshot().raw_connector_config(name) != base:
            return None
        self._loop.leading.write(lambda: self._configs.put_connector_config(name, config))
        return len(self._loop.configs.current.tasks(name))

    def delete(self, name: str) -> None:
        self.need_leader("Only the leader can delete connector configs.")
        if not self._configs.contains(name):
            raise NotFound(f"Connector {name} not found")
        self._loop.leading.write(lambda: self._configs.remove_connector_config(name))

    def stop(self, name: str) -> None:
        """Remove a connector's tasks, then stop it.

        After a failure in between, a running connector has no tasks for a moment, which is better
        than a stopped connector with tasks.
        """
        if not self._configs.contains(name):
            raise NotFound(f"Unknown connector {name}")
        self.need_leader("Only the leader can transition connectors to the STOPPED state.")
        self._loop.leading.put_task_configs(name, [])
        self._configs.put_target_state(name, TargetState.STOPPED)
        self._loop.configs.refresh()

    def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        """Commit task configs that a connector on another worker generated."""
        self.need_leader("Only the leader may write task configurations.")
        state = self._configs.snapshot()
        if not state.contains(name):
            raise NotFound(f"Connector {name} not found")
        if configs and state.target_state(name) is TargetState.STOPPED:
            raise BadRequest(
                f"Cannot submit non-empty set of task configs for stopped connector {name}"
            )
        self._loop.leading.put_task_configs(name, configs)

    def fence(self, name: str) -> Future[None]:
        """Fence a connector's earlier tasks."""
        self.need_leader("Only the leader may perform zombie fencing.")
        return self._loop.fencing.request(name)

    def stopped_config(self, name: str) -> Mapping[str, str]:
        """Return the config of a connector that surely runs on no worker. Raises `BadRequest`
        otherwise.
        """
        self.need_leader("Only the leader can modify connector offsets.")
        if not self._loop.configs.refresh():
            raise ConnectError(
                "Failed to read to end of config topic before modifying connector offsets"
            )
        state = self._loop.configs.current
        config = state.raw_connector_config(name)
        if config is None:
            raise NotFound(f"Connector {name} not found")
        if state.target_state(name) is not TargetState.STOPPED or state.task_count(name):
            raise not_stopped(name)
        return config

    # Restarts.

    def restart_connector(self, name: str) -> Future[None]:
        """Restart a connector that runs here. The future completes when it has started."""
        self._need_known(name)
        self._need_owner(
            InstanceId(name), "connector", "Only the leader can process restart requests."
        )
        return self._loop.work.connectors.restart(name, self._loop.configs.current, shown=False)

    def restart_task(self, instance: InstanceId) -> None:
        """Restart a task that runs here."""
        self._need_known(instance.connector)
        if self._loop.configs.current.raw_task_config(instance) is None:
            raise NotFound(f"Unknown task: {instance}")
        self._need_owner(
            instance, "task", "Cannot restart task since it is not assigned to this member"
        )
        self._loop.work.end_tasks([instance])
        self._loop.work.begin_tasks([instance], self._loop.configs.current)
        if self._loop.work.task_failed(instance):
            raise ConnectError(f"Failed to start task: {instance}")

    def request_restart(self, request: RestartRequest) -> ConnectorStateInfo:
        """Ask all workers to restart their part of a connector (KIP-745). Return the resulting
        status.
        """
        self.need_leader("Only the leader can process restart requests.")
        self._need_known(request.connector)
        shown = self._plan_restart(request).shown
        self._loop.leading.write(lambda: self._configs.put_restart_request(request))
        return shown

    def _need_known(self, name: str) -> None:
        if not self._loop.configs.current.contains(name):
            raise NotFound(f"Unknown connector: {name}")

    def _need_owner(self, instance: InstanceId, kind: str, not_leader: str) -> None:
        membership = self._loop.membership
        if instance in membership.assigned:
            return
        if membership.is_leader:
            raise NotAssigned(
                f"Cannot restart {kind} since it is not assigned to this member",
                membership.owner_url(instance),
            )
        raise NotLeader(not_leader, membership.leader_url or None)
