"""A worker: creates connectors and tasks, and owns their shared resources.

It owns the offset store and the statuses. The herder decides what runs; hosts created by the worker
run it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from connect.clients.librdkafka.topic_log import TopicSpec
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.config.providers import ConfigProvider, ConfigProviders, ResolvedConfig
from connect.config.types import invalid_value
from connect.config.worker import WorkerConfig
from connect.errors import ConfigError, ConnectError
from connect.metrics.task_metrics import TaskMetrics
from connect.metrics.worker_metrics import HostedTask, WorkerMetrics
from connect.plugin import SourceOffset, SourcePartition
from connect.runtime.offset_stores import OWN_TOPIC_KEY, ConnectorStores
from connect.runtime.plugins.connector_clients import ConnectorClients
from connect.runtime.plugins.description import connector_facts, plugin_aliases, task_facts
from connect.runtime.plugins.permissions import OperatorPermissions, Permissions
from connect.runtime.plugins.registry import UNDEFINED_VERSION, PluginRegistry
from connect.runtime.source.exactly_once_task import ExactlyOncePlan
from connect.runtime.source.topic_creation import parse_topic_groups
from connect.runtime.states import InstanceId, StatusBook, StatusListener
from connect.runtime.task_factory import BrokenTask, NewTask, WorkerTaskFactory
from connect.runtime.tasks.configs import TASK_CLASS
from connect.runtime.tasks.engine_thread import EngineThread
from connect.runtime.tasks.host import TaskHost
from connect.runtime.tasks.task import WorkerTask
from connect.runtime.worker_connector import WorkerConnector
from connect.runtime.zombie_fence import ZombieFence
from connect.storage.connector_offset_store import ConnectorOffsetStore
from connect.storage.offset_reader import OffsetReader
from connect.storage.offset_store import READ_S, KafkaOffsetStore, OffsetStore
from connect.version import KAFKA_VERSION

if TYPE_CHECKING:
    from connect.metrics.registry import MetricRegistry

__all__ = ["Worker"]

CONFIG_ACTION_RELOAD = "config.action.reload"


class Worker:
    """One worker. Its herder calls `start` and `stop` once each; in between the rest is
    thread-safe.

    `offset_store` None: the offsets topic named in the config.
    """

    def __init__(
        self,
        config: WorkerConfig,
        plugins: PluginRegistry,
        metrics: MetricRegistry,
        clock: Clock = SYSTEM_CLOCK,
        *,
        worker_id: str,
        offset_store: OffsetStore | None = None,
        status_listener: StatusListener | None = None,
        exactly_once: bool = False,
        permissions: Permissions | None = None,
    ) -> None:
        """Create a worker. `exactly_once`: source tasks get a plan (`make_task`).

        Only workers of a group, which have an id, write exactly once. `permissions` None: those
        that `config` gives to connectors of REST users.
        """
        self.config = config
        self.plugins = plugins
        self.metrics = metrics
        self.clock = clock
        self.worker_id = worker_id
        self.topic_used: Callable[[InstanceId, str], None] = _ignore_topic
        """Called, on any thread, for every record or batch of a task that was written or read. Set
        by the herder."""
        self._providers = ConfigProviders.from_properties(
            config.originals, partial(plugins.find, ConfigProvider)
        )
        self.clients = ConnectorClients.of_worker(config, plugins)
        self.permissions = permissions or OperatorPermissions(config.originals)
        self.statuses = StatusBook(worker_id, clock, status_listener)
        self._figures = WorkerMetrics(worker_id, KAFKA_VERSION, metrics, self._connectors, clock)
        self.offsets = offset_store or KafkaOffsetStore(
            TopicSpec(
                config.offset_storage_topic,
                config.offset_storage_partitions,
                config.offset_storage_replication_factor,
                config.offset_storage_topic_configs,
            ),
            config.own_client_properties("offsets"),
            # Read only committed offsets even if exactly-once is off now. A task that was killed
            # while it was on may have left uncommitted ones, whose records no reader of committed
            # records sees.
            read_committed=True,
            clock=clock,
        )
        self._group_id = config.originals["group.id"] if exactly_once else None
        # Also a worker that does not write exactly once may have to fence, as the leader of others
        # that do.
        group_id = config.originals.get("group.id")
        self._fence = None if group_id is None else ZombieFence(self.clients, group_id, clock)
        self._engine = EngineThread(f"engine-{worker_id}")
        self._transforming = EngineThread(f"transforms-{worker_id}")
        self.stores = ConnectorStores(self.clients, self.offsets, clock)
        self._maker = WorkerTaskFactory(
            self.clients,
            plugins,
            self.stores,
            lambda task, topic: self.topic_used(task, topic),
            clock,
            worker_id=worker_id,
        )

    def start(self, deadline: Deadline) -> None:
        """Read the stored offsets."""
        self.offsets.start(deadline)
        self._figures.show()

    def stop(self, deadline: Deadline) -> None:
        """Close the offset store. The connectors and tasks must be stopped."""
        self._figures.hide()
        self._engine.close(deadline)
        self._transforming.close(deadline)
        if self._fence is not None:
            self._fence.stop(deadline)
        self.offsets.stop(deadline)

    def resolved(self, config: Mapping[str, str]) -> dict[str, str]:
        """Return a connector's config with config provider references resolved.

        Raises `ConfigError` if a provider cannot read its source.
        """
        return self._providers.resolve(config)

    def resolved_for_now(self, config: Mapping[str, str]) -> ResolvedConfig:
        """Resolve a config as `resolved` does, and return how long the values are valid.

        They are valid forever if the connector must not be restarted (`config.action.reload`).
        """
        resolved = self._providers.resolve_for_now(config)
        if resolved.values.get(CONFIG_ACTION_RELOAD, "restart").lower() == "restart":
            return resolved
        return replace(resolved, ttl_s=None)

    def make_connector(
        self,
        name: str,
        config: Mapping[str, str],
        request_reconfiguration: Callable[[], None],
        committed: Sequence[Mapping[str, str]] = (),
    ) -> WorkerConnector:
        """Return a host, not started, for the connector in the config.

        `committed` are the configs of its tasks. Raises `ConfigError`.
        """
        connector_class = self.plugins.connector(config["connector.class"])
        self.permissions.check(connector_class, config)
        connector_class.config_def().remember_secrets(config)
        connector = connector_class()
        if connector.connector_type() == "source" and self.config.topic_creation_enable:
            # Wrong settings for new topics fail the connector before a task uses them.
            parse_topic_groups(config)
        self.describe_connector(name, config)
        return WorkerConnector(
            name,
            connector,
            self.metrics,
            self.statuses,
            request_reconfiguration,
            self._figures.connector_started,
            partial(self._stored_offsets, name, config),
            committed,
        )

    def _stored_offsets(
        self, name: str, config: Mapping[str, str], partitions: Sequence[SourcePartition]
    ) -> list[SourceOffset | None]:
        """Look up stored offsets for `plugin.ConnectorContext`."""
        if config.get(OWN_TOPIC_KEY):
            return [None] * len(partitions)
        deadline = Deadline(READ_S, self.clock)
        return OffsetReader(self.offsets, name).offsets(partitions, deadline)

    def describe_connector(self, name: str, config: Mapping[str, str]) -> None:
        """Set the connector's version and description, which are shown also while it does not run.

        Raises `ConfigError`.
        """
        connector = self.plugins.connector(config["connector.class"])
        self.statuses.set_version(InstanceId(name), self.plugins.version_of(connector))
        self._figures.describe_connector(name, connector_facts(self.plugins, connector))

    def _connectors(self) -> dict[str, str]:
        connectors = self.statuses.connectors()
        return {name: status.state.value.lower() for name, status in connectors.items()}

    def make_task(
        self,
        instance: InstanceId,
        task_class: type,
        connector_config: Mapping[str, str],
        task_config: Mapping[str, str],
        *,
        paused: bool,
        exactly_once: ExactlyOncePlan | None = None,
    ) -> TaskHost:
        """Return a host, not started, for one task.

        A task that cannot be created fails when it is started, so that its status has the reason.
        `exactly_once` None: a source task writes at least once.
        """
        task: WorkerTask
        figures = TaskMetrics(instance.connector, instance.task, self.clock)
        own = self.metrics.owned()
        self.statuses.set_version(instance, self._task_version(task_class, connector_config))
        try:
            connector_class = self.plugins.connector(connector_config["connector.class"])
            self.permissions.check(connector_class, {**connector_config, **task_config})
            connector_class.config_def().remember_secrets({**connector_config, **task_config})
            new = NewTask(instance, connector_config, task_config, figures, own)
            task = self._maker.make(new, task_class(), exactly_once)
            figures.describe(
                task_facts(self.plugins, task_class, connector_config, self.config),
                plugin_aliases(self.plugins, connector_config),
            )
        except Exception as error:  # noqa: BLE001 - plugin code; the task's status shows the error
            task = BrokenTask(error)
        return TaskHost(
            instance,
            task,
            task_class,
            task_config,
            self.statuses,
            paused=paused,
            final_timeout_s=self.config.offset_flush_timeout_s,
            metrics=HostedTask(self._figures, figures, own),
            clock=self.clock,
            engine=self._transforming if task.computes else self._engine,
        )

    def live_keys(self, connector_config: Mapping[str, str]) -> frozenset[str]:
        """Return `Connector.live_keys`; none for an unknown connector class."""
        try:
            return self.plugins.connector(connector_config.get("connector.class", "")).live_keys()
        except ConfigError:
            return frozenset()

    def task_class(
        self, connector_config: Mapping[str, str], task_config: Mapping[str, str]
    ) -> type:
        """Return the class named by `task.class` in a committed task config of any worker.

        Raises `ConfigError`.
        """
        name = task_config.get(TASK_CLASS, "")
        connector = self.plugins.connector(connector_config["connector.class"])
        own = connector.task_class_for(task_config) or connector().task_class()
        if name in self.plugins.names_of_task(own):
            return own
        raise invalid_value(
            TASK_CLASS,
            name,
            f"connectors of class {self.plugins.name_of(connector)} have tasks of class "
            f"{self.plugins.name_of(own)}; restart the connector to recreate its tasks",
        )

    def _task_version(self, task_class: type, connector_config: Mapping[str, str]) -> str:
        """Return the task's own version, or its connector's."""
        version = self.plugins.version_of(task_class)
        if version != UNDEFINED_VERSION:
            return version
        return self.plugins.version_of(self.plugins.connector(connector_config["connector.class"]))

    def own_store(
        self, name: str, connector_config: Mapping[str, str]
    ) -> ConnectorOffsetStore | None:
        """Return the source connector's own offset store, to use while its tasks are stopped.

        The caller starts and stops it. None means the worker's store. Raises `ConfigError`.
        """
        if self._group_id is not None:
            return self.stores.of_exactly_once_connector(name, connector_config, self._group_id)
        return self.stores.of_connector(name, connector_config)

    def fence_zombies(
        self, connector: str, tasks: int, connector_config: Mapping[str, str]
    ) -> Future[None]:
        """Fence earlier runs of tasks 0 to `tasks` - 1 (KIP-618). Only for workers in a group.

        The future completes when they can no longer write, or fails with the brokers' error after
        90 s at most.
        """
        if self._fence is None:
            raise ConnectError("Zombie fencing needs a worker group, and this worker has none")
        return self._fence.fence(connector, tasks, connector_config)


def _ignore_topic(instance: InstanceId, topic: str) -> None:
    """Ignore the topic. This is the default listener."""
