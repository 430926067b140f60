"""The stored state of a flow: its source offsets, and the pages of its offset map."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from connect.clients.librdkafka.topic_log import LogRecord, TopicLog
from connect.clock import Deadline
from connect.errors import CorruptData
from connect.protocol.messages import TopicPartition
from connect.storage.offset_codec import decode_key, decode_value
from connectors.mirror.config.clients import offset_syncs_consumer
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.offsets.map_notes import (
    NO_OWNER,
    Note,
    Owner,
    in_force,
    is_note_key,
    parse_note_key,
)
from connectors.mirror.offsets.offset_map_pages import MapPage, parse_page_key
from connectors.mirror.offsets.offset_sync_writer import position_after
from connectors.mirror.replication_policy import offset_topics

__all__ = ["map_pages", "stored_positions"]


_TIMEOUT_S = 120.0


def stored_positions(
    config: SourceConfig, topic: str, client: Mapping[str, str]
) -> dict[TopicPartition, int]:
    """Return the next source offset of each partition. `topic`: the flow's offsets topic, which
    must exist. `client`: Java properties to read it."""
    found: dict[TopicPartition, int] = {}
    name, alias = config.name, config.source_cluster_alias

    def take(record: LogRecord) -> None:
        key = decode_key(record.key or b"")
        if key is None or key[0] != name or key[1].get("cluster") != alias:
            return
        stored_topic, number = key[1].get("topic"), key[1].get("partition")
        if not isinstance(stored_topic, str) or not isinstance(number, int):
            return
        position = position_after(decode_value(record.value))
        if position is not None:
            found[stored_topic, number] = position
        else:
            found.pop((stored_topic, number), None)

    _replay(TopicLog(topic, client, take, read_committed=True))
    return found


def map_pages(
    config: SourceConfig,
    properties: Mapping[str, str],
    on_source: Collection[str],
    on_target: Collection[str],
    wanted: Collection[str],
) -> dict[TopicPartition, dict[int, MapPage]]:
    """Return the offset map's pages of these topics, by first source offset; empty if there is no
    map. `properties`: the resolved properties of the source connector. `on_source`, `on_target`:
    the topics on each cluster.
    """
    side, _, topic = offset_topics(config.originals)
    if topic not in (on_source if side == "source" else on_target):
        return {}
    pages: dict[TopicPartition, dict[int, MapPage]] = {}
    owners: dict[TopicPartition, int] = {}

    def take(record: LogRecord) -> None:
        try:
            noted = parse_note_key(Note.OWNER, record.key)
            if noted is not None and record.value is not None:
                before = owners.get(noted, NO_OWNER)
                owners[noted] = in_force(before, Owner.decode(record.value))
            if is_note_key(record.key):
                return
            name, number, first = parse_page_key(record.key or b"")
            if name not in wanted:
                return
            of = pages.setdefault((name, number), {})
            if record.value is None:
                of.pop(first, None)
                return
            page = MapPage.decode(first, record.value)
            if page.session >= owners.get((name, number), NO_OWNER):
                of[first] = page
        except CorruptData:
            return  # Offsets outside the map are found by reading the logs.

    _replay(TopicLog(topic, offset_syncs_consumer(properties), take))
    return pages


def _replay(log: TopicLog) -> None:
    try:
        log.start(Deadline(_TIMEOUT_S))
    finally:
        log.stop(Deadline(1.0))
