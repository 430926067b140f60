"""Topics and groups of tests: names nobody else uses, and what is in them."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping, Sequence
from functools import lru_cache

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

from connect.clock import Deadline
from tests.support.waiting import wait_until

__all__ = [
    "admin",
    "alter_topic",
    "create_topic",
    "end_offset",
    "end_offsets",
    "has_topic",
    "start_offset",
    "topic_config",
    "topic_names",
    "unique",
]

_TIMEOUT_S = 30.0
# Those of clusters that are gone make room, and are closed.
_CLIENTS = 8
_LEADER_S, _RETRY_S = 5.0, 0.1
_NO_LEADER = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
    # For a moment after the broker was killed and came back.
    KafkaError.UNKNOWN_LEADER_EPOCH,
}


def unique(prefix: str) -> str:
    """A topic or group name that no other test has."""
    return f"{prefix}-{uuid.uuid4().hex[:10]}"


@lru_cache(_CLIENTS)
def admin(servers: str) -> AdminClient:
    """The admin client of a cluster, one for all who ask. From any thread."""
    return AdminClient(
        {
            "bootstrap.servers": servers,
            "log_level": 0,
            # librdkafka asks for the topics it has seen again every five minutes, and would create
            # those that a test has deleted.
            "allow.auto.create.topics": False,
            # Brokers of tests come back at any moment, and then are asked at once.
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 200,
        }
    )


def topic_names(servers: str) -> set[str]:
    """All topics of a cluster, internal ones included."""
    return set(admin(servers).list_topics(timeout=_TIMEOUT_S).topics)


def has_topic(servers: str, topic: str) -> bool:
    """Whether a cluster has this topic. On a cluster with the topics of many tests, brokers answer
    it with a tenth of the CPU of `topic_names`."""
    asked = admin(servers).describe_topics(TopicCollection([topic]), request_timeout=_TIMEOUT_S)
    try:
        asked[topic].result(_TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise
        return False
    return True


def create_topic(
    servers: str,
    prefix: str = "topic",
    *,
    partitions: int = 1,
    replication: int = 1,
    configs: Mapping[str, str] | None = None,
    name: str | None = None,
) -> str:
    """Create a topic, wait until every partition has a leader, and return its name: `name`, or
    `prefix` made unique."""
    topic = name or unique(prefix)
    client = admin(servers)
    spec = NewTopic(
        topic,
        num_partitions=partitions,
        replication_factor=replication,
        config=dict(configs or {}),
    )
    client.create_topics([spec])[topic].result(_TIMEOUT_S)

    def led() -> bool:
        found = client.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
        return len(found) == partitions and all(p.leader >= 0 for p in found.values())

    wait_until(led, _TIMEOUT_S, f"leaders of {topic}")
    return topic


def alter_topic(servers: str, topic: str, configs: Mapping[str, str]) -> None:
    """Set configs of a topic, and wait until a broker knows of them: the controller answers
    before."""
    client = admin(servers)
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    client.incremental_alter_configs([resource])[resource].result(_TIMEOUT_S)

    def known() -> bool:
        # They come together, and a mirror that syncs configs may have put one of them back.
        return any(topic_config(servers, topic, name) == configs[name] for name in configs)

    wait_until(known, _TIMEOUT_S, f"{configs} of {topic}")


def topic_config(servers: str, topic: str, name: str) -> str | None:
    """The value of one config of a topic."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    client = admin(servers)
    entries = client.describe_configs([resource])[resource].result(_TIMEOUT_S)
    value: str | None = entries[name].value
    return value


def end_offsets(servers: str, topic: str) -> dict[int, int]:
    """The high watermark of every partition."""
    client = admin(servers)
    partitions = client.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    return _offsets(client, topic, list(partitions), latest) if partitions else {}


def _offsets(
    client: AdminClient, topic: str, partitions: Sequence[int], spec: OffsetSpec
) -> dict[int, int]:
    """A partition that was just created, or has just moved, has no leader for a moment."""
    deadline = Deadline(_LEADER_S)
    asked = {TopicPartition(topic, number): spec for number in partitions}
    while True:
        answers = client.list_offsets(asked, request_timeout=_TIMEOUT_S)
        try:
            return {
                partition.partition: int(answer.result(_TIMEOUT_S).offset)
                for partition, answer in answers.items()
            }
        except KafkaException as error:
            if error.args[0].code() not in _NO_LEADER or deadline.expired():
                raise
            threading.Event().wait(_RETRY_S)


def end_offset(servers: str, topic: str, partition: int = 0) -> int:
    """The high watermark of one partition."""
    return end_offsets(servers, topic)[partition]


def start_offset(servers: str, topic: str, partition: int = 0) -> int:
    """The first offset that one partition still has."""
    earliest = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
    return _offsets(admin(servers), topic, [partition], earliest)[partition]
