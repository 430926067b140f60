"""Several clusters and the flows between them, under aliases and topics of one test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException

from deploy.brokers import GuardedProcess, KafkaCluster
from tests.support.flows.mirrors import mirror_maker
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import create_topic, end_offset, topic_names, unique
from tests.support.waiting import wait_until

__all__ = ["IDENTITY", "RENAMING", "Topology"]

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
RENAMING = "RenamingReplicationPolicy"
_SOON_S = 120.0
_STOP_S = 40.0
_COMMON = {
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "offset.storage.partitions": "1",
    "status.storage.replication.factor": "1",
    "status.storage.partitions": "1",
    "config.storage.replication.factor": "1",
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "emit.heartbeats.enabled": "false",
    "heartbeats.replication.enabled": "false",
    "metrics.listener": "",
}


@dataclass(frozen=True)
class Topology:
    """Clusters by letter. `prefix`: of all topics."""

    clusters: Mapping[str, KafkaCluster]
    prefix: str = field(default_factory=lambda: unique("topology"))
    run: str = field(default_factory=lambda: uuid.uuid4().hex[:6])

    def alias(self, letter: str) -> str:
        return f"{letter}{self.run}"

    def servers(self, letter: str) -> str:
        return self.clusters[letter].bootstrap_servers

    def properties(
        self, flows: Mapping[str, Mapping[str, str]], extra: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """An mm2.properties. `flows`: properties of `A->B` by flow, with letters for aliases."""
        letters = sorted({letter for flow in flows for letter in flow.split("->")})
        made = {
            "clusters": ", ".join(map(self.alias, letters)),
            **_COMMON,
            "topics": f"(.*[.])?{self.prefix}.*",
            **{f"{self.alias(each)}.bootstrap.servers": self.servers(each) for each in letters},
            **{f"{self.alias(each)}.offset.flush.interval.ms": "500" for each in letters},
            **(extra or {}),
        }
        for flow, props in flows.items():
            source, target = map(self.alias, flow.split("->"))
            made[f"{source}->{target}.enabled"] = "true"
            made |= {f"{source}->{target}.{key}": value for key, value in props.items()}
        return made

    def topic(self, letter: str, name: str, records: int, start: int = 0) -> str:
        """Create a topic with so many numbered records; return its name."""
        topic = create_topic(self.servers(letter), name=f"{self.prefix}.{name}")
        produce(self.servers(letter), topic, numbered(records, start=start))
        return topic

    def names(self, letter: str) -> set[str]:
        """The test's topics on a cluster."""
        return {name for name in topic_names(self.servers(letter)) if self.prefix in name}

    def copy(self, topic: str, *route: str) -> str:
        """The default policy's name of a topic after these clusters."""
        for letter in route:
            topic = f"{self.alias(letter)}.{topic}"
        return topic

    def wait_records(self, letter: str, topic: str, count: int, partition: int = 0) -> None:
        def there() -> bool:
            try:
                return topic in self.names(letter) and (
                    end_offset(self.servers(letter), topic, partition) >= count
                )
            except KafkaException:
                return False  # It was just created and has no leader yet.

        wait_until(there, _SOON_S, f"{count} records of {topic} on {letter}")

    @contextmanager
    def running(
        self, properties: Mapping[str, str], directory: Path, log: Path
    ) -> Iterator[GuardedProcess]:
        """A mirror process; it must stop cleanly."""
        with mirror_maker(properties, directory, log) as mirror:
            yield mirror
            assert mirror.stop(_STOP_S) == 0, f"see {log}"
