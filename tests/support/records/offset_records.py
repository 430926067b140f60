"""Reads the records that a mirror writes about offsets, and says what they should be."""

from __future__ import annotations

from collections.abc import Iterable

from connectors.mirror.formats import Heartbeat, OffsetSync
from connectors.mirror.offsets.map_notes import is_note_key
from connectors.mirror.offsets.offset_map_pages import MapPage, parse_page_key
from tests.support.flows.mirrored import MirroredFlow
from tests.support.records.reading import ReadRecord, read_partition
from tests.support.records.whole_map import WholeMap

__all__ = ["heartbeats", "java_syncs", "mapping", "offset_map", "offset_syncs"]

Pair = tuple[int, int]


def offset_syncs(servers: str, topic: str) -> list[OffsetSync]:
    """All syncs of an offset-syncs topic, oldest first."""
    return [
        OffsetSync.decode(record.key or b"", record.value or b"")
        for record in read_partition(servers, topic)
    ]


def offset_map(servers: str, map_topic: str, topic: str, partition: int = 0) -> WholeMap:
    """The map of one source partition, from the newest version of each of its pages."""
    pages: dict[bytes, MapPage | None] = {}
    for record in read_partition(servers, map_topic):
        assert record.key is not None
        if is_note_key(record.key):
            continue
        name, number, first = parse_page_key(record.key)
        if (name, number) == (topic, partition):
            pages[record.key] = (
                None if record.value is None else MapPage.decode(first, record.value)
            )
    return WholeMap(page for page in pages.values() if page is not None)


def heartbeats(
    servers: str, topic: str, source: str, target: str
) -> list[tuple[Heartbeat, ReadRecord]]:
    """The heartbeats of one flow in a heartbeats topic, which many flows share."""
    found = [
        (Heartbeat.decode(record.key or b"", record.value or b""), record)
        for record in read_partition(servers, topic)
    ]
    return [(b, r) for b, r in found if (b.source_alias, b.target_alias) == (source, target)]


def mapping(
    flow: MirroredFlow, topic: str, partition: int = 0, *, isolation: str = "read_committed"
) -> dict[int, int]:
    """Source offset -> target offset, by reading both logs. Only for copies without duplicates."""
    before = read_partition(flow.source_servers, topic, partition, isolation=isolation)
    after = read_partition(flow.target_servers, flow.remote(topic), partition)
    return {b.offset: a.offset for b, a in zip(before, after, strict=True)}


def java_syncs(pairs: Iterable[Pair], lag_max: int) -> tuple[list[Pair], Pair | None]:
    """What MirrorMaker 2's OffsetSyncWriter sends at once for these acknowledged records, one by
    one in order, and what it holds back until the next commit."""
    sent: list[Pair] = []
    held: Pair | None = None
    previous_up = previous_down = synced = -1
    for up, down in pairs:
        due = (
            synced == -1
            or down - (synced + 1) >= lag_max
            or up - previous_up != 1
            or down < previous_down
        )
        if due:
            sent.append((up, down))
            synced, held = down, None
        else:
            held = (up, down)
        previous_up, previous_down = up, down
    return sent, held
