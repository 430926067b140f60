"""A flow as its workers in dedicated mode run it, for backfill and audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connect.clients.librdkafka.topic_log import TopicSpec
from connect.config.worker import WorkerConfig
from connectors.mirror.config.source import SourceConfig

__all__ = ["DedicatedFlow"]


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
        return self.worker.task_producer_properties(self.properties, f"{self.group}-backfill")
