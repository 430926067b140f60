"""Reads the offsets that another tool left: in a file, or in the offsets topic of Kafka Connect.

Confluent Replicator and MirrorMaker 2 are connectors, whose offsets Connect stores. Both store the
offset of the last record that they copied. All functions here return the offset of the next one.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from connect.clients.librdkafka.admin import Admin
from connect.clock import Deadline
from connect.data import json_codec
from connect.errors import ConfigError, ConnectError, CorruptData
from connect.plugin import SourceOffset, SourcePartition
from connect.protocol.messages import TopicPartition
from connect.storage.offset_admin import read_offsets
from connect.storage.offset_store import KafkaOffsetStore
from connectors.mirror.inspect.cluster_queries import refuse_hidden
from connectors.mirror.inspect.flow import DedicatedFlow
from connectors.mirror.offsets.source_offsets import position_after

__all__ = ["DEFAULT_OFFSETS_TOPIC", "read_connector_offsets", "read_offsets_file"]

DEFAULT_OFFSETS_TOPIC = "connect-offsets"
"""The topic of Kafka's connect-distributed.properties and of the replicator program."""

_CLOSE_S = 10.0
# The fields of a source partition.
_REPLICATOR = {"topic", "partition"}
_MIRROR_MAKER_2 = {"cluster", *_REPLICATOR}
_SINK = "kafka_topic"


def read_offsets_file(path: Path, source: str) -> dict[TopicPartition, int]:
    """Read lines `topic,partition,offset`, as `kafka-consumer-groups.sh --export` prints them with
    the offset of the next record, or the JSON that `GET /connectors/<name>/offsets` of Kafka
    Connect answers. A group before the topic is skipped. `source`: the alias of the flow's source
    cluster. Raises `ConfigError` with the line or the entry."""
    try:
        text = path.read_text()
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"Cannot read {path}: {error}") from error
    if text.lstrip().startswith("{"):
        return _next_offsets(_entries(text, path), source, str(path))
    return _lines(text, path)


def _lines(text: str, path: Path) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for number, fields in enumerate(csv.reader(text.splitlines()), start=1):
        if not fields:
            continue
        try:
            topic, partition, offset = fields[-3:]
            found[topic.strip(), int(partition)] = int(offset)
        except ValueError as error:
            raise ConfigError(
                f"{path}, line {number}: {','.join(fields)!r} is not topic,partition,offset"
            ) from error
    return found


def _entries(text: str, path: Path) -> list[tuple[SourcePartition, SourceOffset | None]]:
    try:
        document = json_codec.decode(text.encode())
    except CorruptData as error:
        raise ConfigError(f"{path} is not JSON: {error}") from error
    listed = document.get("offsets") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ConfigError(
            f'{path} has no list "offsets": write into it what GET /connectors/NAME/offsets of '
            "Kafka Connect answers"
        )
    found: list[tuple[SourcePartition, SourceOffset | None]] = []
    for each in listed:
        partition = each.get("partition") if isinstance(each, dict) else None
        offset = each.get("offset") if isinstance(each, dict) else None
        if not isinstance(partition, dict) or not isinstance(offset, dict | None):
            shown = json_codec.encode(each).decode()
            raise ConfigError(f'{path}: {shown} has no objects "partition" and "offset"')
        found.append((partition, offset))
    return found


def read_connector_offsets(
    flow: DedicatedFlow, connector: str, topic: str, deadline: Deadline
) -> dict[TopicPartition, int]:
    """Read a connector's offsets from `topic`, the `offset.storage.topic` of its Connect workers,
    on the flow's target cluster. Nothing is written there. Raises `ConfigError` and
    `ConnectError`."""
    client = flow.client("given-offsets")
    with closing(Admin(client)) as admin:
        if topic not in admin.list_topics(deadline.remaining()):
            refuse_hidden(admin, [topic])
            raise ConfigError(
                f"Topic {topic} does not exist on {flow.config.target_cluster_alias}: give the "
                "offset.storage.topic of the Connect workers with --offsets-topic. If it is on "
                "another cluster, put the answer of GET /connectors/NAME/offsets into a file, and "
                "give that with --file"
            )
    store = KafkaOffsetStore(topic, client, read_committed=True)
    try:
        store.start(deadline)
        stored = read_offsets(store, connector, deadline)
        known = store.connectors()
    finally:
        store.stop(Deadline(_CLOSE_S))
    if not stored:
        others = ", ".join(known) or "no connector"
        raise ConfigError(
            f"Topic {topic} has no offsets of connector {connector}. It has those of: {others}"
        )
    return _next_offsets(stored, flow.config.source_cluster_alias, f"Connector {connector}")


def _next_offsets(
    stored: Iterable[tuple[SourcePartition, SourceOffset | None]], source: str, origin: str
) -> dict[TopicPartition, int]:
    """Return the next offsets. `origin`: what the errors begin with."""
    found: dict[TopicPartition, int] = {}
    for partition, offset in stored:
        try:
            key, position = _key(partition, source), position_after(offset)
            if offset is not None and position is None:
                raise ConnectError(f"{json_codec.encode(offset).decode()} is not its offset")
        except ConnectError as error:
            shown = json_codec.encode(partition).decode()
            raise ConfigError(f"{origin}, partition {shown}: {error}") from error
        if position is not None:
            found[key] = position
    return found


def _key(partition: SourcePartition, source: str) -> TopicPartition:
    topic, number = partition.get("topic"), partition.get("partition")
    cluster = partition.get("cluster", source)
    if _SINK in partition:
        raise ConnectError(
            "a sink connector continues at its consumer group: give that with --group; by default "
            "it is connect-NAME"
        )
    fields_fit = partition.keys() in (_REPLICATOR, _MIRROR_MAKER_2)
    if not fields_fit or not isinstance(topic, str) or type(number) is not int or number < 0:
        raise ConnectError(
            "not of a connector that copies topics: Replicator's have the fields topic and "
            "partition, those of MirrorSourceConnector cluster, partition and topic"
        )
    if cluster != source:
        raise ConnectError(
            f"the flow's source cluster is {source}: use the alias of the offsets, which is also "
            "in the names of the copies"
        )
    return topic, number
