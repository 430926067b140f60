"""The common base of the standalone and the distributed herder.

It covers statuses, validation and everything else that depends only on a connector's config.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import closing

from connect.clients.librdkafka.admin import Admin
from connect.clock import Deadline
from connect.errors import ConfigError, DeadlineExceeded
from connect.runtime.errors import BadRequest, Forbidden, NotFound
from connect.runtime.loggers import Loggers
from connect.runtime.offset_management import ConnectorOffsets
from connect.runtime.plugins.configs import plugin_config, plugin_infos
from connect.runtime.rest_entities import (
    ConfigInfo,
    ConfigInfos,
    ConnectorInfo,
    ConnectorStateInfo,
    LoggerLevel,
    OffsetEntry,
    PluginInfo,
    TaskId,
    TaskStateInfo,
)
from connect.runtime.restart_plan import RestartPlan, plan_restart
from connect.runtime.states import InstanceId, Status, TargetState
from connect.runtime.tasks.active_topics import ActiveTopics
from connect.runtime.validation.timed import TimedValidation
from connect.runtime.validation.validator import ConfigValidator, Preflight, invalid_config
from connect.runtime.worker import Worker
from connect.storage.config_records import RestartRequest
from connect.storage.status_store import StatusStore

__all__ = ["REQUEST_TIMEOUT_S", "AbstractHerder", "await_ready", "merged_config", "named_config"]

REQUEST_TIMEOUT_S = 90.0
"""The time limit of a request in Java's REST server."""

_CLUSTER_ID_S = 30.0


class AbstractHerder(ABC):
    """The base of both herders. Safe to use from any thread."""

    def __init__(
        self,
        worker: Worker,
        status_store: StatusStore,
        *,
        loggers: Loggers | None = None,
        preflight: Preflight | None = None,
        exactly_once: bool = False,
    ) -> None:
        """Set up the common parts. For `preflight` and `exactly_once` see `ConfigValidator`."""
        self._worker = worker
        self._status_store = status_store
        self._loggers = loggers or Loggers(worker.clock)
        self._offsets = ConnectorOffsets(worker)
        validator = ConfigValidator(
            worker.plugins,
            worker.resolved,
            worker.clients.policy,
            permissions=worker.permissions.problems,
            preflight=preflight,
            exactly_once=exactly_once,
        )
        self._validation = TimedValidation(validator, worker.clock)
        self._cluster_id: str | None = None
        self._ended: bool | None = None
        """Whether everything ended in time; None: it was not stopped."""
        self._topics = ActiveTopics(status_store, worker.clock)
        if worker.config.topic_tracking_enable:
            worker.topic_used = self._topics.used

    @abstractmethod
    def _raw_config(self, name: str) -> Mapping[str, str] | None:
        """Return the connector's config as submitted, or None if it does not exist."""

    @abstractmethod
    def _status(self, instance: InstanceId) -> Status | None: ...

    @abstractmethod
    def _task_statuses(self, name: str) -> Mapping[int, Status]:
        """Return the statuses of a connector's tasks, by task number."""

    @abstractmethod
    def _change_offsets(
        self, name: str, change: Callable[[Mapping[str, str], Deadline], str]
    ) -> str:
        """Call `change` with the config of a connector that is stopped and stays stopped meanwhile.

        Raises `BadRequest` if it is not stopped.
        """

    @abstractmethod
    def _stop(self, deadline: Deadline) -> bool:
        """Stop everything. Return False if something did not end in time."""

    def stop(self, deadline: Deadline) -> bool:
        """Stop everything. Another call only returns the result of the first."""
        if self._ended is None:
            self._ended = self._stop(deadline)
        return self._ended

    @abstractmethod
    def _set_target(self, name: str, target: TargetState) -> None: ...

    @abstractmethod
    def _begin_restart(self, name: str) -> Future[None]:
        """Begin to restart a connector. The result is done when it has started."""

    def pause_connector(self, name: str) -> None:
        self._set_target(name, TargetState.PAUSED)

    def resume_connector(self, name: str) -> None:
        self._set_target(name, TargetState.STARTED)

    def restart_connector(self, name: str) -> None:
        """Restart a connector, and return when it has started. Raises the error that prevents the
        start.
        """
        deadline = self._deadline(REQUEST_TIMEOUT_S)
        await_ready(self._begin_restart(name), deadline)

    def connector_config(self, name: str) -> Mapping[str, str]:
        config = self._raw_config(name)
        if config is None:
            raise NotFound(f"Connector {name} not found")
        return config

    def resolved_config(self, name: str) -> Mapping[str, str]:
        return self._worker.resolved(self.connector_config(name))

    def connector_state(self, name: str) -> ConnectorStateInfo:
        status = self._status(InstanceId(name))
        if status is None:
            raise NotFound(f"No status found for connector {name}")
        config = self._raw_config(name)
        return ConnectorStateInfo(
            name=name,
            state=status.state.value,
            worker_id=status.worker_id,
            tasks=[
                _task_state(number, task)
                for number, task in sorted(self._task_statuses(name).items())
            ],
            type=self._type_of(config),
            trace=status.trace,
            version=status.version,
        )

    def task_state(self, task: TaskId) -> TaskStateInfo:
        status = self._status(InstanceId(task.connector, task.task))
        if status is None:
            raise NotFound(f"No status found for task {task.connector}-{task.task}")
        return _task_state(task.task, status)

    def kafka_cluster_id(self) -> str:
        """Return the id of the worker's Kafka cluster. Cached after the first call."""
        if self._cluster_id is None:
            with closing(Admin(self._worker.config.own_client_properties("shared-admin"))) as admin:
                self._cluster_id = admin.cluster_id(_CLUSTER_ID_S)
        return self._cluster_id

    def connector_offsets(self, name: str) -> list[OffsetEntry]:
        config = self._worker.resolved(self.connector_config(name))
        return self._offsets.read(name, config, self._deadline(REQUEST_TIMEOUT_S))

    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry]) -> str:
        def alter(config: Mapping[str, str], deadline: Deadline) -> str:
            return self._offsets.alter(name, config, offsets, deadline)

        return self._change_offsets(name, alter)

    def reset_offsets(self, name: str) -> str:
        def reset(config: Mapping[str, str], deadline: Deadline) -> str:
            return self._offsets.reset(name, config, deadline)

        return self._change_offsets(name, reset)

    def active_topics(self, name: str) -> list[str]:
        self._need_topic_tracking()
        return self._topics.of(name)

    def reset_active_topics(self, name: str) -> None:
        self._need_topic_tracking()
        if not self._worker.config.topic_tracking_allow_reset:
            raise Forbidden("Topic tracking reset is disabled.")
        self._topics.reset(name)

    def plugins(self, *, connectors_only: bool) -> list[PluginInfo]:
        return plugin_infos(self._worker.plugins, connectors_only=connectors_only)

    def plugin_config(self, plugin: str, version: str | None = None) -> list[ConfigInfo]:
        return plugin_config(self._worker.plugins, plugin, version)

    def validate(self, config: Mapping[str, str | None]) -> ConfigInfos:
        return self._validation.validate(config, self._deadline(REQUEST_TIMEOUT_S))

    def loggers(self) -> Mapping[str, LoggerLevel]:
        return self._loggers.all()

    def logger(self, name: str) -> LoggerLevel:
        return self._loggers.get(name)

    def set_logger(self, name: str, level: str) -> list[str]:
        return self._loggers.set(name, level)

    def _checked_config(
        self, name: str, config: Mapping[str, str | None], deadline: Deadline
    ) -> dict[str, str]:
        """Return the validated config with its name. Raises `BadRequest` with all errors, and
        `DeadlineExceeded`."""
        named = named_config(name, config)
        error = invalid_config(self._validation.validate(named, deadline))
        if error is not None:
            raise error
        return {key: value for key, value in named.items() if value is not None}

    def _deadline(self, seconds: float) -> Deadline:
        return Deadline(seconds, self._worker.clock)

    def _need_topic_tracking(self) -> None:
        if not self._worker.config.topic_tracking_enable:
            raise Forbidden("Topic tracking is disabled.")

    def _info(self, name: str, config: Mapping[str, str], tasks: int) -> ConnectorInfo:
        ids = [TaskId(name, number) for number in range(tasks)]
        return ConnectorInfo(name, dict(config), ids, self._type_of(config))

    def _type_of(self, config: Mapping[str, str] | None) -> str:
        """Return "source", "sink" or "unknown"."""
        class_name = None if config is None else config.get("connector.class")
        if class_name is None:
            return "unknown"
        try:
            return self._worker.plugins.connector(class_name).connector_type()
        except ConfigError:
            return "unknown"

    def _restart_plan(self, request: RestartRequest) -> RestartPlan:
        """Return the plan of a restart request. Raises `NotFound`."""
        if self._raw_config(request.connector) is None:
            raise NotFound(f"Unknown connector: {request.connector}")
        if self._status(InstanceId(request.connector)) is None:
            raise NotFound(f"Status for connector {request.connector} not found")
        return plan_restart(request, self.connector_state(request.connector))


def await_ready(
    ready: Future[None],
    deadline: Deadline,
    otherwise: str = "The connector has not started within the request's time limit; it may"
    " still start later",
) -> None:
    """Wait for the result of a request. Raises its error, or `DeadlineExceeded` with
    `otherwise`.
    """
    try:
        ready.result(deadline.remaining())
    except FutureTimeout as error:
        if ready.done():
            raise
        raise DeadlineExceeded(otherwise) from error


def _task_state(number: int, status: Status) -> TaskStateInfo:
    return TaskStateInfo(number, status.state.value, status.worker_id, status.trace, status.version)


def named_config(name: str, config: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the config with the connector's name in it. Raises `BadRequest` if it has another
    name.
    """
    inside = config.get("name", name)
    if inside != name:
        raise BadRequest(
            f"Connector name configuration ({inside}) doesn't match connector name in the URL"
            f" ({name})"
        )
    return {**config, "name": name}


def merged_config(
    config: Mapping[str, str], patch: Mapping[str, str | None]
) -> dict[str, str | None]:
    """Return a config with a patch applied (KIP-477); null removes a key."""
    merged: dict[str, str | None] = {**config, **patch}
    return {key: value for key, value in merged.items() if value is not None}
