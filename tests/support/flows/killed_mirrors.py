"""Mirrors that are killed while they copy: their topics, and what must be true of the copies."""

from __future__ import annotations

from tests.support.flows.mirrored import MirroredFlow
from tests.support.records.offset_records import offset_map
from tests.support.records.reading import ReadRecord, read_partition
from tests.support.records.steady import SteadyWriter
from tests.support.records.topics import end_offset
from tests.support.waiting import wait_until

__all__ = [
    "COMPACTED",
    "PROPERTIES",
    "caught_up",
    "check",
    "make_topics",
    "repeats",
    "wait_copying",
    "wait_rounds",
]


COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "500",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1000",
}
PROPERTIES = {
    "A.consumer.isolation.level": "read_committed",
    # The copy of a compacted topic is not compacted, so that it shows what was copied.
    "config.properties.exclude": ".*",
}


def repeats(before: list[ReadRecord], after: list[ReadRecord]) -> int:
    """How often the copy goes back. Fails unless it is the source's records in order, each there,
    but for jumps back to a record that was copied already.

    Records of the source that compaction removed since are in the copy only; values are unique per
    partition, so each record of the copy has one place in the source's order.
    """
    place = {record.content(): n for n, record in enumerate(before)}
    assert len(place) == len(before), "the test's records must differ"
    reached, last, jumps = -1, -1, 0
    for record in after:
        at = place.get(record.content())
        if at is None:
            continue
        if at <= last:
            jumps += 1
        else:
            # Forwards it goes one by one: over what was copied before, or to the next new one.
            assert at <= reached + 1, f"records {reached + 1} to {at - 1} are missing or late"
        last = at
        reached = max(reached, at)
    assert reached == len(before) - 1, f"{len(before) - 1 - reached} records are missing at the end"
    return jumps


def check(flow: MirroredFlow, topics: dict[str, int], most_jumps: int) -> int:
    """Compare both logs of each partition, and follow the map; returns the records copied twice."""
    doubled = 0
    for topic, partitions in topics.items():
        for partition in range(partitions):
            before = read_partition(
                flow.source_servers, topic, partition, isolation="read_committed"
            )
            after = read_partition(flow.target_servers, flow.remote(topic), partition)
            assert repeats(before, after) <= most_jumps
            doubled += len(after) - len({record.content() for record in after})
            translate = offset_map(flow.source_servers, flow.map_topic, topic, partition)
            copies = {record.offset: record for record in after}
            last_copy = {record.content(): record.offset for record in after}
            for record in before:
                there = translate.downstream(record.offset)
                assert there is not None, record.offset
                assert copies[there].content() == record.content(), record.offset
                assert there == last_copy[record.content()], "the later copy counts"
    return doubled


def caught_up(flow: MirroredFlow, topics: dict[str, int], timeout_s: float = 60.0) -> None:
    """Until every source partition's last committed record is stored as copied."""

    def all_stored() -> bool:
        stored = flow.stored_offsets()
        return all(
            stored.get((topic, partition), -1)
            >= end_offset(flow.source_servers, topic, partition) - 1
            for topic, partitions in topics.items()
            for partition in range(partitions)
        )

    wait_until(all_stored, timeout_s, "everything is copied and stored")


def wait_copying(flow: MirroredFlow, topic: str, timeout_s: float = 90.0) -> None:
    """Until the copy grows."""
    flow.wait_created(topic, timeout_s)
    before = end_offset(flow.target_servers, flow.remote(topic))
    wait_until(
        lambda: end_offset(flow.target_servers, flow.remote(topic)) > before, timeout_s, "copying"
    )


def wait_rounds(writer: SteadyWriter, count: int) -> None:
    """Until so many more rounds are written."""
    wanted = writer.rounds + count
    wait_until(lambda: writer.rounds >= wanted, 60.0, f"{count} more rounds")


def make_topics(flow: MirroredFlow, replication: int = 1) -> dict[str, int]:
    """Partition counts by topic, in the order in which `SteadyWriter` takes them."""
    return {
        flow.topic("plain", partitions=2, replication=replication): 2,
        flow.topic("transactional", replication=replication): 1,
        flow.topic("compacted", configs=COMPACTED, replication=replication): 1,
    }
