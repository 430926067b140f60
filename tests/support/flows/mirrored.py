"""One flow of a test: its aliases and topics, and what the mirror wrote about it.

Aliases and topic names are the test's own, so that tests share clusters without sharing any of
MirrorMaker's internal topics. Only `heartbeats` has one name for all.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ConfigSource

from deploy.brokers import GuardedProcess, KafkaCluster
from tests.support.flows.mirrors import mirror_maker, mm2_properties
from tests.support.records.reading import ReadRecord, contents, read_partition
from tests.support.records.topics import (
    admin,
    create_topic,
    end_offset,
    end_offsets,
    has_topic,
    unique,
)
from tests.support.waiting import wait_until

__all__ = [
    "MirroredFlow",
    "assert_equal_logs",
    "batch_codecs",
    "read_all",
    "running",
    "stop_cleanly",
    "topic_configs",
    "wait_ends",
]

_STOP_S = 30.0
_TIMEOUT_S = 30.0
# Of record batches of magic 2 (KIP-98): offset and length, the header up to its records, and the
# codec in the attributes.
_FRAME, _HEADER, _CODEC_BITS = 12, 61, 7


@dataclass(frozen=True)
class MirroredFlow:
    """A flow from one cluster to another under aliases nobody else uses."""

    source: KafkaCluster
    target: KafkaCluster
    prefix: str = field(default_factory=lambda: unique("flow"))
    a: str = field(default_factory=lambda: f"a{uuid.uuid4().hex[:8]}")
    b: str = field(default_factory=lambda: f"b{uuid.uuid4().hex[:8]}")

    @property
    def source_servers(self) -> str:
        return self.source.bootstrap_servers

    @property
    def target_servers(self) -> str:
        return self.target.bootstrap_servers

    def properties(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """An mm2.properties with this flow's topics only, and no heartbeats; `extra` wins. In it,
        `A` and `B` as the first part of a key stand for the aliases."""
        renamed = {self._named(key): value for key, value in (extra or {}).items()}
        base = mm2_properties(self.source_servers, self.target_servers)
        old = (
            "clusters",
            "source.bootstrap",
            "target.bootstrap",
            "source->",
            "target->",
            "offset.flush",
            "consumer.auto",
        )
        return {
            **{key: value for key, value in base.items() if not key.startswith(old)},
            "clusters": f"{self.a}, {self.b}",
            f"{self.a}.bootstrap.servers": self.source_servers,
            f"{self.b}.bootstrap.servers": self.target_servers,
            f"{self.a}->{self.b}.enabled": "true",
            "topics": f"{self.prefix}.*",
            "emit.heartbeats.enabled": "false",
            "heartbeats.replication.enabled": "false",
            "offset.storage.partitions": "1",
            f"{self.b}.offset.flush.interval.ms": "500",
            # The lowest that brokers allow: a mirror that was killed is soon missed.
            f"{self.b}.session.timeout.ms": "6000",
            f"{self.b}.heartbeat.interval.ms": "500",
            "metrics.listener": "",
            **renamed,
        }

    def _named(self, key: str) -> str:
        names = {"A": self.a, "B": self.b}
        return re.sub(
            r"^(A|B)(?:->(A|B))?(?=\.)",
            lambda m: "->".join(names[part] for part in m.groups() if part),
            key,
        )

    def topic(
        self,
        name: str = "t",
        *,
        partitions: int = 1,
        replication: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> str:
        """Create a topic of this flow on the source."""
        return create_topic(
            self.source_servers,
            name=f"{self.prefix}.{name}",
            partitions=partitions,
            replication=replication,
            configs=configs,
        )

    def remote(self, topic: str) -> str:
        """Its name on the target, by the default policy."""
        return f"{self.a}.{topic}"

    @property
    def offsets_topic(self) -> str:
        return f"mm2-offsets.{self.a}.internal"

    @property
    def syncs_topic(self) -> str:
        return f"mm2-offset-syncs.{self.b}.internal"

    @property
    def map_topic(self) -> str:
        return f"mm2-offset-map.{self.b}.internal"

    # Waiting.

    def wait_created(self, topic: str, timeout_s: float = 30.0) -> str:
        remote = self.remote(topic)
        wait_until(
            lambda: has_topic(self.target_servers, remote), timeout_s, f"creation of {remote}"
        )
        return remote

    def wait_records(self, topic: str, counts: Sequence[int], timeout_s: float = 60.0) -> None:
        """Until the copy's partitions end at these offsets."""
        remote = self.wait_created(topic, timeout_s)
        wanted = dict(enumerate(counts))

        def ends() -> dict[int, int] | None:
            try:
                found = end_offsets(self.target_servers, remote)
            except KafkaException:
                return None  # a partition that was just created has no leader yet
            return found if all(found.get(p, -1) >= n for p, n in wanted.items()) else None

        wait_until(ends, timeout_s, f"{remote} has {wanted} records")

    def wait_stored(self, topic: str, partition: int, offset: int, timeout_s: float = 30.0) -> None:
        """Until `offset` of the source is stored as the last one copied."""

        def stored() -> bool:
            if not has_topic(self.target_servers, self.offsets_topic):
                return False
            return self.stored_offsets().get((topic, partition), -1) >= offset

        wait_until(stored, timeout_s, f"offset {offset} of {topic}-{partition} is stored")

    # What was written.

    def stored_records(self) -> list[tuple[int, ReadRecord]]:
        """(partition, record) of the offsets topic, without those of aborted transactions."""
        servers, topic = self.target_servers, self.offsets_topic
        return [
            (partition, record)
            for partition in end_offsets(servers, topic)
            for record in read_partition(servers, topic, partition, isolation="read_committed")
        ]

    def stored_offsets(self) -> dict[tuple[str, int], int]:
        """The last stored offset by source partition."""
        found: dict[tuple[str, int], int] = {}
        for _, record in self.stored_records():
            name, partition = json.loads(record.key or b"[null,null]")
            if name == "MirrorSourceConnector" and record.value is not None:
                offset = json.loads(record.value)["offset"]
                found[partition["topic"], partition["partition"]] = offset
        return found


def read_all(servers: str, topic: str, *, isolation: str = "read_uncommitted") -> list[ReadRecord]:
    """All partitions' records, partition by partition."""
    return [
        record
        for partition in sorted(end_offsets(servers, topic))
        for record in read_partition(servers, topic, partition, isolation=isolation)
    ]


def assert_equal_logs(
    flow: MirroredFlow, topic: str, remote: str | None = None, *, isolation: str = "read_committed"
) -> None:
    """The copy has exactly the source's records, in each partition, in order, each once."""
    copy = remote or flow.remote(topic)
    partitions = end_offsets(flow.source_servers, topic)
    assert end_offsets(flow.target_servers, copy).keys() == partitions.keys()
    for partition in partitions:
        before = read_partition(flow.source_servers, topic, partition, isolation=isolation)
        after = read_partition(flow.target_servers, copy, partition)
        assert len(after) == len(before), f"{copy}-{partition}"
        assert contents(after) == contents(before), f"{copy}-{partition}"


@contextmanager
def running(
    properties: Mapping[str, str], directory: Path, log: Path, *arguments: str
) -> Iterator[GuardedProcess]:
    """Our mirror as a child process. When the test fails, its log is in the output."""
    with mirror_maker(properties, directory, log, *arguments) as mirror:
        try:
            yield mirror
        except BaseException:
            print(f"--- {log}, exit status {mirror.poll()}\n{log.read_text()}")
            raise


def stop_cleanly(mirror: GuardedProcess, log: Path) -> None:
    """SIGTERM ends ours with 0, and without having left anything behind."""
    status = mirror.stop(_STOP_S)
    text = log.read_text()
    assert status == 0, text
    for sign in ("Traceback", "abandoned", "will be copied again", "not written before"):
        assert sign not in text, text


def batch_codecs(cluster: KafkaCluster, topic: str, partition: int = 0) -> set[int]:
    """The compression codecs of a partition's batches, as they are on disk on the first node."""
    found: set[int] = set()
    for segment in (cluster.node(1).directory / "data" / f"{topic}-{partition}").glob("*.log"):
        data, at = segment.read_bytes(), 0
        while at + _HEADER <= len(data) and (
            length := int.from_bytes(data[at + 8 : at + 12], "big")
        ):
            found.add(int.from_bytes(data[at + 21 : at + 23], "big") & _CODEC_BITS)
            at += _FRAME + length
    return found


def topic_configs(servers: str, topic: str) -> dict[str, str]:
    """What is set on the topic itself."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    client = admin(servers)
    entries = client.describe_configs([resource])[resource].result(_TIMEOUT_S)
    dynamic = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {name: entry.value for name, entry in entries.items() if entry.source == dynamic}


def wait_ends(servers: str, topic: str, end: int, timeout_s: float = 60.0) -> None:
    """Until partition 0 of a topic ends at `end`."""

    def reached() -> bool:
        return has_topic(servers, topic) and end_offset(servers, topic) >= end

    wait_until(reached, timeout_s, f"{topic} has {end} records")
