"""Creates the tasks of one worker: their client properties, converters, transformations and stores.

Nothing is started here. An error raises with the reason for the task's status.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from connect.clients.config.properties import produce_settings, wire_settings
from connect.clients.librdkafka.admin import Admin
from connect.clients.transactions.coordinator import TransactionCoordinator
from connect.clients.transactions.producer import TransactionalProducer
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.data.transforms.chain import TransformChain
from connect.errors import ConfigError
from connect.metrics.task_metrics import TaskMetrics
from connect.plugin import SinkTask, SourceRecord, SourceTask, TransferTask
from connect.runtime.error_handling.reporters import source_errors
from connect.runtime.error_handling.tolerance import (
    RecordErrors,
    warn_of_error_handling,
)
from connect.runtime.offset_stores import ConnectorStores
from connect.runtime.plugins.connector_clients import ClientProperties, ConnectorClients
from connect.runtime.plugins.registry import PluginRegistry
from connect.runtime.plugins.transform_chain import has_transforms, make_chain, transforms_refused
from connect.runtime.sink.context import WorkerSinkTaskContext
from connect.runtime.sink.errors import SinkErrors
from connect.runtime.sink.records import SinkRecordReader
from connect.runtime.sink.task import WorkerSinkTask
from connect.runtime.source.exactly_once_task import (
    ExactlyOncePlan,
    ExactlyOnceSourceTask,
    Transactions,
)
from connect.runtime.source.loop import RecordTaskParts
from connect.runtime.source.task import WorkerSourceTask
from connect.runtime.source.topic_creation import parse_topic_groups
from connect.runtime.source.topic_creator import TopicCreator
from connect.runtime.source.transaction_boundaries import make_boundaries, transfer_boundary_s
from connect.runtime.states import InstanceId
from connect.runtime.tasks.record_converters import Converters
from connect.runtime.tasks.task import WorkerTask, WorkerTaskContext
from connect.runtime.transfer.exactly_once_task import ExactlyOnceTransferTask
from connect.runtime.transfer.record_transforms import (
    WorkerRecordTransforms,
    make_record_transforms,
)
from connect.runtime.transfer.task import WorkerTransferTask
from connect.runtime.transfer.transactions import TaskTransactions, TransactionalRecords
from connect.storage.offset_reader import OffsetReader
from connect.storage.offset_store import OffsetStore
from connect.storage.offset_writer import OffsetWriter

if TYPE_CHECKING:
    from connect.metrics.registry import MetricRegistry

__all__ = ["BrokenTask", "NewTask", "WorkerTaskFactory"]

_log = logging.getLogger(__name__)

_SUPPORT = "exactly.once.support"


@dataclass(frozen=True, slots=True)
class NewTask:
    """The specification of a task to make. Its configs are resolved."""

    instance: InstanceId
    connector_config: Mapping[str, str] = field(repr=False)
    task_config: Mapping[str, str] = field(repr=False)
    figures: TaskMetrics
    metrics: MetricRegistry
    """What the plugin registers its own metrics in."""


class WorkerTaskFactory:
    """Creates tasks of one worker. Thread-safe. Configs here are resolved.

    `topic_used(task, topic)` is called, on any thread, for every record that a task wrote or read.
    """

    def __init__(
        self,
        clients: ConnectorClients,
        plugins: PluginRegistry,
        stores: ConnectorStores,
        topic_used: Callable[[InstanceId, str], None],
        clock: Clock = SYSTEM_CLOCK,
        *,
        worker_id: str,
    ) -> None:
        self._clients = clients
        self._config = clients.config
        self._plugins = plugins
        self._stores = stores
        self._topic_used = topic_used
        self._clock = clock
        self._worker_id = worker_id
        self._converters = Converters(plugins, clients.config)

    def make(
        self, new: NewTask, task: object, exactly_once: ExactlyOncePlan | None = None
    ) -> WorkerTask:
        """Create a task. Raises `ConfigError`, and errors of plugins.

        `exactly_once` None: a source task writes at least once.
        """
        if isinstance(task, SinkTask):
            return self._sink_task(new, task)
        if isinstance(task, SourceTask) and exactly_once is not None:
            return self._exactly_once_task(new, task, exactly_once)
        if isinstance(task, SourceTask):
            return self._source_task(new, task)
        if isinstance(task, TransferTask):
            if exactly_once is not None:
                if task.writes_transactions():
                    return self._exactly_once_transfer(new, task, exactly_once)
                _refuse_if_required(task, new.connector_config)
                _log.warning(
                    "Task %s delivers at least once: %s does not write in transactions. Set "
                    "exactly.once.support=required to refuse such a task",
                    new.instance,
                    type(task).__name__,
                )
            return self._source_task(new, task)
        raise ConfigError(
            f"{type(task).__name__}, the task class of connector {new.instance.connector}, is"
            " neither a SourceTask nor a TransferTask nor a SinkTask"
        )

    def _source_task(self, new: NewTask, task: SourceTask | TransferTask) -> WorkerTask:
        own = self._stores.of_task(new.instance, new.connector_config)
        store = self._stores.shared if own is None else own
        context = self._task_context(new, store, own=own is not None)
        writer = OffsetWriter(store, new.instance.connector)
        interval_s = self._config.offset_flush_interval_s
        timeout_s = self._config.offset_flush_timeout_s
        if isinstance(task, TransferTask):
            return WorkerTransferTask(
                task,
                context,
                new.task_config,
                writer,
                self._record_transforms(new, task),
                commit_interval_s=interval_s,
                commit_timeout_s=timeout_s,
                clock=self._clock,
            )
        return WorkerSourceTask(
            self._record_task_parts(new, task, context),
            writer,
            commit_interval_s=interval_s,
            commit_timeout_s=timeout_s,
        )

    def _exactly_once_task(
        self, new: NewTask, task: SourceTask, plan: ExactlyOncePlan
    ) -> WorkerTask:
        producer = TransactionalProducer(
            self._source_clients(new).producer(f"connector-producer-{new.instance}"),
            plan.transactional_id,
            self._clock,
        )
        store = self._stores.of_exactly_once_task(
            new.instance, new.connector_config, producer.send_future
        )
        boundaries, asked = make_boundaries(
            new.connector_config, self._config.offset_flush_interval_s, self._clock
        )
        context = self._task_context(new, store.store, own=True)
        context.transactions = asked
        return ExactlyOnceSourceTask(
            self._record_task_parts(new, task, context),
            Transactions(plan, producer, store, boundaries),
        )

    def _exactly_once_transfer(
        self, new: NewTask, task: TransferTask, plan: ExactlyOncePlan
    ) -> WorkerTask:
        instance, config = new.instance, new.connector_config
        boundary_s = transfer_boundary_s(config, self._config.offset_flush_interval_s)
        producer = self._source_clients(new).producer(f"connector-producer-{instance}")
        timeout_ms = produce_settings(producer).transaction_timeout_ms
        coordinator = TransactionCoordinator(
            wire_settings(producer), plan.transactional_id, timeout_ms, self._clock
        )
        records = TransactionalRecords()
        store = self._stores.of_exactly_once_task(instance, config, records.send)
        transactions = TaskTransactions(
            instance.connector,
            plan,
            coordinator,
            store,
            records,
            timeout_s=timeout_ms / 1000,
            boundary_s=boundary_s,
            clock=self._clock,
        )
        return ExactlyOnceTransferTask(
            task,
            self._task_context(new, store.store, own=True),
            new.task_config,
            transactions,
            self._clock,
            transforms=self._record_transforms(new, task),
        )

    def _record_task_parts(
        self, new: NewTask, task: SourceTask, context: WorkerTaskContext
    ) -> RecordTaskParts:
        return RecordTaskParts(
            task,
            context,
            new.task_config,
            self._converters.of(new.connector_config),
            self._chain_of(new, task),
            self._source_errors(new),
            self._topic_creator(new),
            self._clock,
        )

    def _topic_creator(self, new: NewTask) -> TopicCreator | None:
        groups = None
        if self._config.topic_creation_enable:
            groups = parse_topic_groups(new.connector_config)
        if groups is None:
            return None
        properties = self._source_clients(new).admin(f"connector-adminclient-{new.instance}")
        return TopicCreator(groups, lambda: Admin(properties))

    def _sink_task(self, new: NewTask, task: SinkTask) -> WorkerTask:
        converters = self._converters.of(new.connector_config)
        clients = self._clients.of(new.instance.connector, "sink", new.connector_config)
        errors = SinkErrors(
            new.instance.connector,
            new.instance.task,
            new.connector_config,
            converters,
            clients,
            self._clock,
        )
        context = WorkerSinkTaskContext(
            new.instance.connector,
            new.instance.task,
            self._worker_id,
            new.metrics,
            new.figures,
            reporter=errors.reporter,
        )
        return WorkerSinkTask(
            task,
            context,
            # As in Java, a sink task's config includes the connector's topics.
            {**new.connector_config, **new.task_config},
            clients.consumer(f"connector-consumer-{new.instance}"),
            SinkRecordReader(
                converters,
                make_chain(self._plugins, new.connector_config),
                errors.errors,
                keep_origins=errors.reporter is not None,
            ),
            errors,
            lambda topic: self._topic_used(new.instance, topic),
            commit_interval_s=self._config.offset_flush_interval_s,
            commit_timeout_s=self._config.offset_flush_timeout_s,
            clock=self._clock,
        )

    def _source_clients(self, new: NewTask) -> ClientProperties:
        return self._clients.of(new.instance.connector, "source", new.connector_config)

    def _source_errors(self, new: NewTask) -> RecordErrors[SourceRecord]:
        return source_errors(str(new.instance), new.connector_config, self._clock)

    def _task_context(self, new: NewTask, store: OffsetStore, *, own: bool) -> WorkerTaskContext:
        """Return the context of a task whose offsets are in `store`. `own`: the task opens and
        closes the store."""
        return WorkerTaskContext(
            connector_name=new.instance.connector,
            task_index=new.instance.task,
            worker_id=self._worker_id,
            metrics=new.metrics,
            reader=OffsetReader(store, new.instance.connector),
            producer=self._source_clients(new).producer(f"connector-producer-{new.instance}"),
            topic_used=lambda topic: self._topic_used(new.instance, topic),
            clock=self._clock,
            figures=new.figures,
            own_offsets=store if own else None,
        )

    def _chain_of(self, new: NewTask, task: SourceTask) -> TransformChain:
        if not task.transforms_records():
            return TransformChain()
        return make_chain(self._plugins, new.connector_config)

    def _record_transforms(self, new: NewTask, task: TransferTask) -> WorkerRecordTransforms | None:
        """Return the transformations of a transfer task; None: it has none. Raises `ConfigError` if
        it cannot run them."""
        config = new.connector_config
        if not has_transforms(config):
            warn_of_error_handling(new.instance.connector, config)
            return None
        prefix = task.transforms_prefix()
        if prefix is None:
            raise transforms_refused(config["connector.class"], config)
        errors = self._source_errors(new)
        return make_record_transforms(self._plugins, self._converters, config, prefix, errors)


def _refuse_if_required(task: TransferTask, connector_config: Mapping[str, str]) -> None:
    if connector_config.get(_SUPPORT, "").strip().lower() == "required":
        raise ConfigError(
            f"{_SUPPORT}=required: {type(task).__name__} writes with its own clients and not in"
            f" transactions; set requested to accept at-least-once delivery",
            key=_SUPPORT,
            value="required",
        )


class BrokenTask(WorkerTask):
    """Represents a task that could not be created; starting it raises the reason."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def start(self) -> None:
        raise self._error

    def turn(self) -> None:
        """Never called: the start failed."""

    def pause(self) -> None:
        """Never called: the start failed."""

    def resume(self) -> None:
        """Never called: the start failed."""

    def commit_soon(self) -> Future[None]:
        return Future()

    def finish(self, deadline: Deadline, *, failed: bool) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: nothing was opened."""

    def wake(self) -> None:
        """Do nothing: no thread waits."""
