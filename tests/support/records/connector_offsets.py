"""Offsets that connectors of other tools leave in the topic of Kafka Connect's workers."""

from __future__ import annotations

import json
from collections.abc import Mapping

from connect.protocol.messages import TopicPartition
from tests.support.records.producing import Record, produce
from tests.support.records.topics import create_topic, has_topic

__all__ = ["store_replicator_offsets"]


def store_replicator_offsets(
    servers: str, offsets_topic: str, connector: str, last: Mapping[TopicPartition, int | None]
) -> None:
    """Write the last record that Confluent Replicator copied of each partition into the workers'
    topic, which is created; None: the connector's offset is deleted."""
    if not has_topic(servers, offsets_topic):
        create_topic(servers, name=offsets_topic, configs={"cleanup.policy": "compact"})
    compact = (",", ":")
    records = [
        Record(
            None if offset is None else json.dumps({"offset": offset}, separators=compact).encode(),
            json.dumps(
                [connector, {"topic": topic, "partition": partition}], separators=compact
            ).encode(),
        )
        for (topic, partition), offset in last.items()
    ]
    produce(servers, offsets_topic, records)
