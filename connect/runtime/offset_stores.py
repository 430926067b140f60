"""Choose and create the offset store of a source connector, with the connector's clients."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from connect.clients.librdkafka.topic_log import TopicSpec
from connect.clients.transactions.atomic_writer import TransactionalSender
from connect.clock import SYSTEM_CLOCK, Clock
from connect.plugin import RecordMetadata
from connect.runtime.plugins.connector_clients import ClientProperties, ConnectorClients
from connect.runtime.states import InstanceId
from connect.storage.connector_offset_store import (
    ConnectorOffsetStore,
    SingleTransactionOffsets,
    TransactionalOffsets,
)
from connect.storage.offset_store import KafkaOffsetStore, OffsetStore

__all__ = ["OWN_TOPIC_KEY", "ConnectorStores", "TransactionalStore", "task_transactional_id"]

_log = logging.getLogger(__name__)

OWN_TOPIC_KEY = "offsets.storage.topic"
_CHANGE_S = 30.0
"""The time to claim a task's transactional id, or to write offsets that a user changed."""

OffsetSend = Callable[[str, bytes, bytes | None], Future[RecordMetadata]]
"""Queues a record (topic, key, value) with the producer of the open transaction."""


def task_transactional_id(group_id: str, task: InstanceId) -> str:
    """Return the transactional id of a task's producer under exactly-once, the same as Java's."""
    return f"{group_id}-{task.connector}-{task.task}"


@dataclass(frozen=True, slots=True)
class TransactionalStore:
    """The store of a task that writes exactly once.

    `offsets` is the part of `store` that must be told how each transaction ended. `notes` returns
    the notes stored with offsets, by their keys.
    """

    store: OffsetStore
    offsets: TransactionalOffsets
    topic: str
    notes: Callable[[Iterable[bytes]], dict[bytes, bytes]]


class ConnectorStores:
    """Creates stores. The caller starts and stops them.

    `shared` is the worker's store, which its worker starts and stops. Configs here are resolved.
    Thread-safe.
    """

    def __init__(
        self, clients: ConnectorClients, shared: OffsetStore, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._clients = clients
        self._config = clients.config
        self.shared = shared
        self._clock = clock

    def of_task(
        self, task: InstanceId, connector_config: Mapping[str, str]
    ) -> ConnectorOffsetStore | None:
        """Return the store of an at-least-once task.

        None means the worker's store, which the task must not stop.
        """
        topic = self._own_topic(connector_config)
        if topic is None:
            return None
        clients = self._clients.of(task.connector, "source", connector_config)
        producer = clients.producer(f"connector-producer-{task}")
        return self._combined(self._kafka_store(task, clients, topic, producer), clients, topic)

    def of_connector(
        self, name: str, connector_config: Mapping[str, str]
    ) -> ConnectorOffsetStore | None:
        """Return the store as `of_task` does, to list or change offsets of a connector without
        running tasks.
        """
        topic = self._own_topic(connector_config)
        if topic is None:
            return None
        clients = self._clients.of(name, "source", connector_config)
        producer = clients.producer(f"connector-offset-producer-{name}")
        own = self._kafka_store(InstanceId(name), clients, topic, producer)
        return self._combined(own, clients, topic)

    def of_exactly_once_task(
        self, task: InstanceId, connector_config: Mapping[str, str], send: OffsetSend
    ) -> TransactionalStore:
        """Return the store of an exactly-once task, which writes with `send`.

        The task always has a store of its own, because the worker's store uses another producer.
        """
        topic = self._own_topic(connector_config) or self._config.offset_storage_topic
        clients = self._clients.of(task.connector, "source", connector_config)
        own = self._committed_store(task, clients, topic)
        offsets = TransactionalOffsets(own, lambda key, value: send(topic, key, value))
        store = self._combined(offsets, clients, topic)
        return TransactionalStore(store, offsets, topic, own.notes)

    def of_exactly_once_connector(
        self, name: str, connector_config: Mapping[str, str], group_id: str
    ) -> ConnectorOffsetStore:
        """Return the store to list or change offsets of an exactly-once connector without running
        tasks.

        It writes in transactions, with the transactional id of task 0.
        """
        topic = self._own_topic(connector_config) or self._config.offset_storage_topic
        task = InstanceId(name, 0)
        clients = self._clients.of(name, "source", connector_config)
        producer = clients.producer(f"connector-producer-{task}")
        own = SingleTransactionOffsets(
            self._committed_store(InstanceId(name), clients, topic),
            topic,
            lambda: TransactionalSender(producer, task_transactional_id(group_id, task)),
            timeout_s=_CHANGE_S,
        )
        return self._combined(own, clients, topic)

    def _own_topic(self, connector_config: Mapping[str, str]) -> str | None:
        topic = connector_config.get(OWN_TOPIC_KEY)
        if topic is not None and not self._config.offset_storage_topic:
            _log.info(
                "Ignoring %s: a standalone worker keeps all source offsets in its own offset store",
                OWN_TOPIC_KEY,
            )
            return None
        return topic

    def _combined(
        self, own: OffsetStore, clients: ClientProperties, topic: str
    ) -> ConnectorOffsetStore:
        alone = self._is_shared(topic, clients)
        return ConnectorOffsetStore(
            own,
            None if alone else self.shared,
            delete_timeout_s=self._config.offset_flush_timeout_s,
        )

    def _is_shared(self, topic: str, clients: ClientProperties) -> bool:
        """Return whether it is the worker's topic, by its name and its producer's cluster.

        As in Java, other addresses of the same cluster are not recognised.
        """
        servers = clients.producer("")["bootstrap.servers"]
        return topic == self._config.offset_storage_topic and _addresses(servers) == _addresses(
            self._config.originals["bootstrap.servers"]
        )

    def _committed_store(
        self, instance: InstanceId, clients: ClientProperties, topic: str
    ) -> KafkaOffsetStore:
        """Return a store for reading only."""
        return self._kafka_store(instance, clients, topic, {}, committed=True)

    def _kafka_store(
        self,
        instance: InstanceId,
        clients: ClientProperties,
        topic: str,
        producer: Mapping[str, str],
        *,
        committed: bool = False,
    ) -> KafkaOffsetStore:
        config = self._config
        consumer = clients.consumer(f"connector-consumer-{instance}")
        # Uncommitted offsets are not read, unless a user asks for that in a place where nothing
        # depends on it.
        level = "read_committed" if committed else consumer.get("isolation.level", "read_committed")
        return KafkaOffsetStore(
            TopicSpec(
                topic,
                config.offset_storage_partitions,
                config.offset_storage_replication_factor,
                config.offset_storage_topic_configs,
            ),
            producer,
            read_committed=level == "read_committed",
            consumer_properties=consumer,
            admin_properties=clients.admin(f"connector-adminclient-{instance}"),
            clock=self._clock,
        )


def _addresses(servers: str) -> frozenset[str]:
    return frozenset(part.strip() for part in servers.split(",") if part.strip())
