"""The stored state of a flow: its source offsets, and the pages of its offset map."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

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
from connectors.mirror.offsets.source_offsets import position_after
from connectors.mirror.replication_policy import offset_topics

__all__ = ["PagesThatCount", "map_pages", "stored_positions"]


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
    found = PagesThatCount(lambda key: key[0] in wanted)
    _replay(
        TopicLog(
            topic,
            offset_syncs_consumer(properties),
            lambda record: found.take(record.key, record.value),
        )
    )
    return found.pages


class PagesThatCount:
    """Collects the offset map's pages from its records, taken in the order of the topic: the newest
    under each key, without those that came after their partition had another owner."""

    def __init__(self, wanted: Callable[[TopicPartition], bool]) -> None:
        self.pages: dict[TopicPartition, dict[int, MapPage]] = {}
        """The pages of wanted partitions, by first source offset."""
        self._wanted = wanted
        self._owners: dict[TopicPartition, int] = {}

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """Take a record. Invalid ones are ignored: offsets outside the map are found by reading the
        logs."""
        with suppress(CorruptData):
            noted = parse_note_key(Note.OWNER, key)
            if noted is not None and value is not None:
                before = self._owners.get(noted, NO_OWNER)
                self._owners[noted] = in_force(before, Owner.decode(value))
            if not is_note_key(key):
                self._take_page(key or b"", value)

    def _take_page(self, key: bytes, value: bytes | None) -> None:
        topic, number, first = parse_page_key(key)
        if not self._wanted((topic, number)):
            return
        of = self.pages.setdefault((topic, number), {})
        if value is None:
            of.pop(first, None)
            return
        page = MapPage.decode(first, value)
        if page.session >= self._owners.get((topic, number), NO_OWNER):
            of[first] = page


def _replay(log: TopicLog) -> None:
    try:
        log.start(Deadline(_TIMEOUT_S))
    finally:
        log.stop(Deadline(1.0))
