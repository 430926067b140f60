"""A standalone herder on a real broker, with the small connectors of `plugins`."""

from __future__ import annotations

from collections.abc import Mapping

import confluent_kafka

from connect.clock import Deadline
from connect.config.worker import WorkerConfig
from connect.metrics.registry import MetricRegistry
from connect.runtime.plugins.registry import PluginRegistry
from connect.runtime.standalone.herder import StandaloneHerder
from connect.runtime.states import State
from connect.runtime.worker import Worker
from deploy.brokers import KafkaCluster
from tests.support.records.reading import read_partition
from tests.support.records.topics import create_topic, unique
from tests.support.waiting import wait_until
from tests.support.workers.plugins import Events, LaneConnector, TransferLaneConnector

__all__ = ["KINDS", "TIMEOUT_S", "Bench", "numbers"]

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
KINDS = ["RecordLane", "TransferLane"]
TIMEOUT_S = 30.0


class Bench:
    """A herder on the target cluster that can be stopped and started anew, its offsets staying.

    `more`: properties of its worker."""

    def __init__(self, cluster: KafkaCluster, more: Mapping[str, str] | None = None) -> None:
        self.more = dict(more or {})
        self.servers = cluster.bootstrap_servers
        self.topic = create_topic(self.servers, "lanes")
        self.offsets_topic = unique("mm2-offsets")
        self.metrics = MetricRegistry()
        self.herder = self.open()

    def open(self, connector_start_timeout_s: float = TIMEOUT_S) -> StandaloneHerder:
        self.plugins = plugins = PluginRegistry(discover=False)
        plugins.register(LaneConnector, "test.RecordLaneConnector")
        plugins.register(TransferLaneConnector, "test.TransferLaneConnector")
        config = WorkerConfig.from_properties(
            {
                "bootstrap.servers": self.servers,
                "group.id": "lanes",
                "offset.storage.topic": self.offsets_topic,
                "offset.storage.replication.factor": "1",
                "offset.storage.partitions": "1",
                "offset.flush.interval.ms": "200",
                "task.shutdown.graceful.timeout.ms": "3000",
                "key.converter": BYTES,
                "value.converter": BYTES,
                "header.converter": BYTES,
                "producer.linger.ms": "0",
                "file.connectors.root": "/",
                **self.more,
            }
        )
        self.worker = worker = Worker(config, plugins, self.metrics, worker_id="w1")
        self.herder = StandaloneHerder(worker, connector_start_timeout_s=connector_start_timeout_s)
        self.herder.start(Deadline(TIMEOUT_S))
        return self.herder

    def close(self) -> bool:
        return self.herder.stop(Deadline(10))

    def put(self, kind: str, name: str = "lanes", **config: str) -> None:
        dashed = {key.replace("_", "."): value for key, value in config.items()}
        self.herder.put_connector(
            name,
            {
                "connector.class": kind,
                "tasks.max": "4",
                "topic": self.topic,
                "count": "3",
                **dashed,
            },
        )

    def values(self) -> list[bytes | None]:
        return [record.value for record in read_partition(self.servers, self.topic)]

    def arrived(self, *expected: str) -> None:
        """Wait until the topic has these values at least, in any order."""
        wanted = {value.encode() for value in expected}
        wait_until(lambda: wanted <= set(self.values()), TIMEOUT_S, f"{expected} on the target")

    def states(self, name: str = "lanes") -> list[State]:
        """Of the connector and its tasks."""
        status = self.herder.status(name)
        return [status.status.state, *(task.status.state for task in status.tasks)]

    def becomes(self, *states: State, name: str = "lanes") -> None:
        wait_until(
            lambda: self.states(name) == list(states), TIMEOUT_S, f"states of {name}: {states}"
        )

    def told(self, event: str) -> None:
        wait_until(lambda: event in Events.of(self.topic), TIMEOUT_S, f"event {event}")

    def produce(self, *values: bytes, topic: str | None = None) -> None:
        """To partition 0 of the bench's own topic, or of this one."""
        producer = confluent_kafka.Producer({"bootstrap.servers": self.servers})
        for value in values:
            producer.produce(topic or self.topic, value, partition=0)
        assert producer.flush(30) == 0

    def puts(self) -> list[str]:
        return [event for event in Events.of(self.topic) if event.startswith("put")]


def numbers(lane: str, start: int, end: int) -> list[str]:
    return [f"{lane}:{number}" for number in range(start, end)]
