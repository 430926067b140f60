"""A worker: what all its connectors and tasks share, and how one of them is made.

It owns the offset store and the statuses. Who decides what runs is the herder; who runs it are the
hosts that the worker makes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING

from connect.clients.topic_log import TopicSpec
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.config.providers import ConfigProviders
from connect.config.worker import WorkerConfig
from connect.data.converters.base import Converter, ConverterUse
from connect.errors import ConfigError
from connect.plugin import SinkTask, SourceTask, TransferTask
from connect.runtime.override_policy import ClientKind, OverrideRequest
from connect.runtime.plugins import UNDEFINED_VERSION, PluginRegistry
from connect.runtime.sink_context import WorkerSinkTaskContext
from connect.runtime.sink_task import WorkerSinkTask
from connect.runtime.source_task import RecordConverters, WorkerSourceTask
from connect.runtime.states import InstanceId, StatusBook, StatusListener
from connect.runtime.task import WorkerTask, WorkerTaskContext
from connect.runtime.task_host import TaskHost
from connect.runtime.tolerance import check_error_handling, warn_of_error_handling
from connect.runtime.transfer_task import WorkerTransferTask
from connect.runtime.transforms import has_transforms, make_chain, transforms_refused
from connect.runtime.worker_connector import ConnectorHost
from connect.storage.offset_reader import OffsetReader
from connect.storage.offset_store import KafkaOffsetStore, OffsetStore
from connect.storage.offset_writer import OffsetWriter

if TYPE_CHECKING:
    from connect.metrics.registry import MetricRegistry

__all__ = ["Worker"]


class Worker:
    """One worker. `start` and `stop` are called once each by its herder; the rest is safe from any
    thread in between. `offset_store` None: the topic that the config names."""

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
    ) -> None:
        self.config = config
        self.plugins = plugins
        self.metrics = metrics
        self.clock = clock
        self.worker_id = worker_id
        self.topic_used: Callable[[InstanceId, str], None] = _ignore_topic
        """Told when a task uses a topic for the first time, on any thread. Its herder sets it."""
        self._providers = ConfigProviders.from_properties(config.originals, plugins.config_provider)
        self.override_policy = plugins.override_policy(
            config.override_policy, "connector.client.config.override.policy"
        )()
        self.override_policy.configure(config.originals)
        self.statuses = StatusBook(worker_id, clock, status_listener)
        self.offsets = offset_store or KafkaOffsetStore(
            TopicSpec(
                config.offset_storage_topic,
                config.offset_storage_partitions,
                config.offset_storage_replication_factor,
                config.offset_storage_topic_configs,
            ),
            config.own_client_properties("offsets"),
            clock=clock,
        )

    def start(self, deadline: Deadline) -> None:
        """Read the stored offsets."""
        self.offsets.start(deadline)

    def stop(self, deadline: Deadline) -> None:
        """Close the offset store. The connectors and tasks were stopped before."""
        self.offsets.stop(deadline)

    def resolved(self, config: Mapping[str, str]) -> dict[str, str]:
        """A connector's config as the connector gets it: what config providers know put in.

        Raises `ConfigError` where a provider cannot read what it is asked for.
        """
        return self._providers.resolve(config)

    def make_connector(
        self, name: str, config: Mapping[str, str], request_reconfiguration: Callable[[], None]
    ) -> ConnectorHost:
        """A host for the connector that the config names; not started. Raises `ConfigError`."""
        connector = self.plugins.connector(config["connector.class"])()
        self.statuses.set_version(InstanceId(name), self.plugins.version_of(type(connector)))
        return ConnectorHost(name, connector, self.metrics, self.statuses, request_reconfiguration)

    def make_task(
        self,
        instance: InstanceId,
        task_class: type,
        connector_config: Mapping[str, str],
        task_config: Mapping[str, str],
        *,
        paused: bool,
    ) -> TaskHost:
        """A host for one task; not started. A task that cannot be made fails when it is started,
        so that its status says why."""
        task: WorkerTask
        self.statuses.set_version(instance, self._task_version(task_class, connector_config))
        try:
            task = self._worker_task(instance, task_class(), connector_config, task_config)
        except Exception as error:  # noqa: BLE001 - plugin code; the task's status shows the error
            task = _BrokenTask(error)
        return TaskHost(
            instance,
            task,
            task_class,
            task_config,
            self.statuses,
            paused=paused,
            final_timeout_s=self.config.offset_flush_timeout_s,
            clock=self.clock,
        )

    def _task_version(self, task_class: type, connector_config: Mapping[str, str]) -> str:
        """The task's own version, or else its connector's."""
        version = self.plugins.version_of(task_class)
        if version != UNDEFINED_VERSION:
            return version
        return self.plugins.version_of(self.plugins.connector(connector_config["connector.class"]))

    def remake_task(
        self, old: TaskHost, connector_config: Mapping[str, str], *, paused: bool
    ) -> TaskHost:
        """A host for a new instance of an ended task."""
        return self.make_task(
            old.instance, old.task_class, connector_config, old.config, paused=paused
        )

    def _worker_task(
        self,
        instance: InstanceId,
        task: object,
        connector_config: Mapping[str, str],
        task_config: Mapping[str, str],
    ) -> WorkerTask:
        if isinstance(task, TransferTask):
            warn_of_error_handling(instance.connector, connector_config)
        else:
            check_error_handling(connector_config)
        if isinstance(task, SinkTask):
            return self._sink_task(instance, task, connector_config, task_config)
        self._check_overrides(instance.connector, connector_config, "producer")
        context = self._task_context(instance, connector_config)
        writer = OffsetWriter(self.offsets, instance.connector)
        interval_s = self.config.offset_flush_interval_s
        timeout_s = self.config.offset_flush_timeout_s
        if isinstance(task, TransferTask):
            if has_transforms(connector_config):
                raise transforms_refused(connector_config["connector.class"], connector_config)
            return WorkerTransferTask(
                task,
                context,
                task_config,
                writer,
                commit_interval_s=interval_s,
                commit_timeout_s=timeout_s,
                clock=self.clock,
            )
        if isinstance(task, SourceTask):
            return WorkerSourceTask(
                task,
                context,
                task_config,
                writer,
                self._converters(connector_config),
                make_chain(self.plugins, connector_config),
                commit_interval_s=interval_s,
                commit_timeout_s=timeout_s,
                clock=self.clock,
            )
        raise ConfigError(
            f"{type(task).__name__}, the task class of connector {instance.connector}, is neither"
            " a SourceTask nor a TransferTask nor a SinkTask"
        )

    def _sink_task(
        self,
        instance: InstanceId,
        task: SinkTask,
        connector_config: Mapping[str, str],
        task_config: Mapping[str, str],
    ) -> WorkerTask:
        self._check_overrides(instance.connector, connector_config, "consumer")
        return WorkerSinkTask(
            task,
            WorkerSinkTaskContext(instance.connector, instance.task, self.worker_id, self.metrics),
            # As in Java each task knows what its connector reads.
            {**connector_config, **task_config},
            self.config.task_consumer_properties(
                connector_config, instance.connector, f"connector-consumer-{instance}"
            ),
            self._converters(connector_config),
            make_chain(self.plugins, connector_config),
            lambda topic: self.topic_used(instance, topic),
            commit_interval_s=self.config.offset_flush_interval_s,
            commit_timeout_s=self.config.offset_flush_timeout_s,
            clock=self.clock,
        )

    def _check_overrides(
        self, name: str, connector_config: Mapping[str, str], client: ClientKind
    ) -> None:
        """The policy may be another one than when the config was validated."""
        prefix = f"{client}.override."
        connector = self.plugins.connector(connector_config["connector.class"])
        refusals = self.override_policy.refusals(
            OverrideRequest(
                name,
                connector.connector_type(),
                client,
                {
                    key[len(prefix) :]: value
                    for key, value in connector_config.items()
                    if key.startswith(prefix)
                },
            )
        )
        for key, refusal in refusals.items():
            raise ConfigError(refusal, key=prefix + key)

    def _task_context(
        self, instance: InstanceId, connector_config: Mapping[str, str]
    ) -> WorkerTaskContext:
        return WorkerTaskContext(
            connector_name=instance.connector,
            task_index=instance.task,
            worker_id=self.worker_id,
            metrics=self.metrics,
            reader=OffsetReader(self.offsets, instance.connector),
            producer=self.config.task_producer_properties(
                connector_config, f"connector-producer-{instance}"
            ),
            on_topic_used=lambda topic: self.topic_used(instance, topic),
            clock=self.clock,
        )

    def _converters(self, connector_config: Mapping[str, str]) -> RecordConverters:
        return RecordConverters(
            key=self._converter(connector_config, "key"),
            value=self._converter(connector_config, "value"),
            header=self._converter(connector_config, "header"),
        )

    def _converter(self, connector_config: Mapping[str, str], use: ConverterUse) -> Converter:
        """The connector's own converter with its own properties, or else the worker's with the
        worker's: the two are never mixed."""
        key = f"{use}.converter"
        own_name = connector_config.get(key)
        props = connector_config if own_name else self.config.originals
        converter = self.plugins.converter(own_name or self._default_converter(use), key)()
        prefix = f"{key}."
        own = {name[len(prefix) :]: props[name] for name in props if name.startswith(prefix)}
        try:
            converter.configure(own, use)
        except ConfigError as error:
            where = f"{prefix}{error.key}" if error.key in own else key
            raise ConfigError(f"{where}: {error}", key=where, value=error.value) from error
        return converter

    def _default_converter(self, use: ConverterUse) -> str:
        if use == "key":
            return self.config.key_converter
        if use == "value":
            return self.config.value_converter
        return self.config.header_converter


def _ignore_topic(instance: InstanceId, topic: str) -> None:
    """Nobody wants to know."""


class _BrokenTask(WorkerTask):
    """Stands for a task that could not be made; starting it raises the reason."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def start(self) -> None:
        raise self._error

    def turn(self) -> None:
        """Never reached: the start failed."""

    def pause(self) -> None:
        """Never reached: the start failed."""

    def resume(self) -> None:
        """Never reached: the start failed."""

    def commit_soon(self) -> Future[None]:
        return Future()

    def finish(self, deadline: Deadline, *, failed: bool) -> bool:
        return True

    def close(self) -> None:
        """Nothing was opened."""

    def wake(self) -> None:
        """Nothing waits."""
