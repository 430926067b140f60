"""A flow as its workers in dedicated mode run it, for backfill and audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connect.clients.librdkafka.topic_log import TopicSpec
from connect.config.worker import WorkerConfig
from connect.runtime.plugins.connector_clients import ConnectorClients
from connect.runtime.plugins.override_policy import AllConnectorClientConfigOverridePolicy
from connectors.mirror.config.source import SourceConfig

__all__ = ["DedicatedFlow", "flow_producer"]


@dataclass(frozen=True, slots=True)
class DedicatedFlow:
    """A flow of dedicated mode. `properties`: the resolved properties of the source connector,
    including `spark.*`; they contain secrets. `worker`: the config of the flow's workers."""

    name: str
    properties: Mapping[str, str] = field(repr=False)
    worker: WorkerConfig = field(repr=False)

    @property
    def config(self) -> SourceConfig:
        return SourceConfig.from_properties(self.properties)

    @property
    def group(self) -> str:
        """Return the Connect group of the flow's workers."""
        return self.worker.originals["group.id"]

    @property
    def config_topic(self) -> str:
        return self.worker.originals["config.storage.topic"]

    @property
    def offsets_topic(self) -> TopicSpec:
        worker = self.worker
        return TopicSpec(
            worker.offset_storage_topic,
            worker.offset_storage_partitions,
            worker.offset_storage_replication_factor,
            worker.offset_storage_topic_configs,
        )

    def client(self, purpose: str) -> dict[str, str]:
        """Return the Java properties of a client for the workers' internal topics, on the
        target."""
        return {
            **self.worker.own_client_properties(purpose),
            "client.id": f"{self.group}-{purpose}",
        }

    def producer(self) -> dict[str, str]:
        """Return the Java properties of the producer that the flow's tasks and a backfill use."""
        return flow_producer(self.worker, self.properties, f"{self.group}-backfill")


def flow_producer(
    worker: WorkerConfig, properties: Mapping[str, str], client_id: str
) -> dict[str, str]:
    """Return the Java properties of a producer as the flow's tasks have them. Overrides in the
    operator's own file need no policy, as in Java's dedicated mode."""
    clients = ConnectorClients(worker, AllConnectorClientConfigOverridePolicy())
    return clients.of(properties["name"], "source", properties).producer(client_id)
