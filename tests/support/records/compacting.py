"""Topics that the broker has compacted, and that then stay as they are."""

from __future__ import annotations

from tests.support.records.producing import Record, produce
from tests.support.records.reading import read_partition
from tests.support.records.topics import alter_topic, end_offset
from tests.support.waiting import wait_until

__all__ = ["SOON_COMPACTED", "wait_compacted"]

SOON_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "200",
}
_STILL = {"min.cleanable.dirty.ratio": "1.0", "max.compaction.lag.ms": "9000000000"}


def wait_compacted(servers: str, topic: str, least: int) -> None:
    """Until more than `least` records of a topic of these configs are gone. From then on nothing
    changes any more, so that both sides can be read and compared."""

    def compacted() -> bool:
        # Only segments that are closed are compacted.
        produce(servers, topic, [Record(b"tick", b"tick")])
        return len(read_partition(servers, topic)) < end_offset(servers, topic) - least

    wait_until(compacted, 60.0, "the broker compacts the topic")
    alter_topic(servers, topic, _STILL)
