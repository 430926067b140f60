"""Mirror connectors that run without a worker."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from connect.clients.librdkafka.admin import Admin
from connect.metrics.registry import MetricRegistry
from connect.plugin import Connector, SourceOffset, SourcePartition

__all__ = ["Context", "configs_set", "running"]


class Context:
    """The worker's side of a connector, for tests that have no worker."""

    connector_name = "connector"

    def __init__(self) -> None:
        self.metrics = MetricRegistry()
        self.requests: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.errors: queue.SimpleQueue[Exception] = queue.SimpleQueue()
        self.trouble: str | None = None

    committed_tasks: Sequence[Mapping[str, str]] = ()

    def stored_offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        return [None] * len(partitions)

    def request_task_reconfiguration(self) -> None:
        self.requests.put(None)

    def raise_error(self, error: Exception) -> None:
        self.errors.put(error)

    def report_trouble(self, trouble: str | None) -> None:
        self.trouble = trouble


@contextmanager
def running(connector: Connector, config: dict[str, str]) -> Iterator[Context]:
    context = Context()
    connector.initialize(context)
    try:
        connector.start(config)
        yield context
    finally:
        connector.stop()


def configs_set(client: Admin, topic: str) -> dict[str, str | None]:
    """The configs that were set for the topic itself."""
    entries = client.describe_topic_configs([topic])[topic]
    return {e.name: e.value for e in entries if e.source.name == "DYNAMIC_TOPIC_CONFIG"}
