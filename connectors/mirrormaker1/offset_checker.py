"""How far a consumer group, or a flow of MirrorMaker 2, is behind the source: one row per
partition.

The rows are those of Kafka 0.8's ConsumerOffsetChecker. Calls block.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass

import confluent_kafka

from connect.clients.config.properties import wire_settings
from connect.clients.errors import from_librdkafka
from connect.clients.groups.fetch_offsets import fetch_committed
from connect.clients.librdkafka import factory
from connect.clients.librdkafka.admin import Admin
from connect.clock import Deadline
from connect.errors import ConnectError, DeadlineExceeded
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.clients import source_admin
from connectors.mirror.inspect.cluster_queries import asking, refuse_hidden
from connectors.mirror.inspect.flow import DedicatedFlow
from connectors.mirror.inspect.running_flow import look_at_flow
from connectors.mirror.inspect.stored_progress import stored_positions

__all__ = ["PartitionRow", "brokers", "flow_rows", "group_rows"]

_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition of the source. `offset`: the next one to be copied or consumed; None: none is
    stored. `log_size`: the end offset of the log. `owner`: the member that has it; None: nobody."""

    group: str
    topic: str
    partition: int
    offset: int | None
    log_size: int
    owner: str | None

    @property
    def lag(self) -> int | None:
        return None if self.offset is None else max(0, self.log_size - self.offset)


def group_rows(
    client: Mapping[str, str], group: str, topics: Collection[str] | None
) -> list[PartitionRow]:
    """Return the partitions of a consumer group, or of these topics, by topic and number. `client`:
    Java admin properties. Raises one of `connect.errors`."""
    deadline = Deadline(_TIMEOUT_S)
    found = fetch_committed(wire_settings(client), [group], deadline)[group]
    if isinstance(found, ConnectError):
        raise found
    owners = _owners(client, group)
    keys = set(owners) | set(found)
    with closing(Admin(client)) as admin:
        if topics is not None:
            counts = admin.list_topics(_TIMEOUT_S)
            refuse_hidden(admin, set(topics) - counts.keys(), "Describe")
            keys = {(t, number) for t in topics for number in range(counts.get(t, 0))}
        ends = admin.end_offsets(keys, _TIMEOUT_S)
    offsets = {key: each.offset for key, each in found.items()}
    return [
        PartitionRow(group, *key, offsets.get(key), ends[key], owners.get(key))
        for key in sorted(keys)
        if key in ends
    ]


def flow_rows(flow: DedicatedFlow, topics: Collection[str] | None) -> list[PartitionRow]:
    """Return the partitions that a flow copies, ours or Java's. `owner`: the Connect group while it
    has workers. Raises one of `connect.errors`."""
    client = flow.client("offset-checker")
    with closing(Admin(client)) as target, asking("target", client):
        name = flow.offsets_topic.name
        exists = name in target.list_topics(_TIMEOUT_S)
        if not exists:
            refuse_hidden(target, [name])
    stored = stored_positions(flow.config, flow.offsets_topic.name, client) if exists else {}
    live = look_at_flow(flow)
    properties = source_admin(flow.properties)
    with closing(Admin(properties)) as source:
        with asking("source", properties):
            counts = source.list_topics(_TIMEOUT_S)
        known = {*stored, *live.assigned}
        refuse_hidden(source, {topic for topic, _ in known} - counts.keys(), "Describe")
        keys = {
            key
            for key in known
            if key[1] < counts.get(key[0], 0) and (topics is None or key[0] in topics)
        }
        ends = source.end_offsets(keys, _TIMEOUT_S)
    return [
        PartitionRow(
            flow.name,
            *key,
            stored.get(key),
            ends[key],
            flow.group if live.members and key in live.assigned else None,
        )
        for key in sorted(keys)
    ]


def brokers(client: Mapping[str, str]) -> dict[int, str]:
    """Return the brokers' addresses by id. Raises one of `connect.errors`."""
    try:
        metadata = factory.admin_client(client).list_topics(timeout=_TIMEOUT_S)
    except confluent_kafka.KafkaException as error:
        raise from_librdkafka(error, "Listing brokers") from error
    return {each.id: f"{each.host}:{each.port}" for each in metadata.brokers.values()}


def _owners(client: Mapping[str, str], group: str) -> dict[TopicPartition, str]:
    """Return the member that has each partition."""
    what, admin = f"Describing group {group}", factory.admin_client(client)
    try:
        asked = admin.describe_consumer_groups([group], request_timeout=_TIMEOUT_S)[group]
        described = asked.result(_TIMEOUT_S + 5)
    except confluent_kafka.KafkaException as error:
        if error.args[0].code() == confluent_kafka.KafkaError.GROUP_ID_NOT_FOUND:
            return {}
        raise from_librdkafka(error, what, f"Describe on group {group}") from error
    except concurrent.futures.TimeoutError as error:
        raise DeadlineExceeded(f"{what} got no answer in {_TIMEOUT_S:g} s") from error
    return {
        (each.topic, each.partition): member.member_id
        for member in described.members
        if member.assignment is not None
        for each in member.assignment.topic_partitions
    }
