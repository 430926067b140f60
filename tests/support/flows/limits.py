"""Backlogs that a limit can be seen on, and what workers show of being held back."""

from __future__ import annotations

from tests.support.flows.mirrored import MirroredFlow
from tests.support.flows.worker_flow import WorkerFlow
from tests.support.records.producing import numbered, produce
from tests.support.served import metric

__all__ = [
    "BACKLOG",
    "EXACTLY_ONCE",
    "KB",
    "SLOW_RATE",
    "WITHOUT",
    "assert_throttled",
    "produce_backlog",
]

RECORD, BATCH, BACKLOG = 1000, 20, 1000
"""Bytes of a record, records of a batch, and records that each partition has at the start."""
KB = RECORD / 1000
SLOW_RATE = 80
"""Thousand bytes a second, of a topic that is held back."""
WITHOUT, EXACTLY_ONCE = "disabled", "enabled"
"""Values of exactly.once.source.support."""
_THROTTLED = "kafka_connect_mirror_mirrorsourceconnector_throttle_time_ms"
_WORTH_SHOWING_MS = 1000


def produce_backlog(
    flow: MirroredFlow, topic: str, partitions: int = 2, *, records: int = BACKLOG
) -> None:
    """So many records into each partition of a topic of the source."""
    for partition in range(partitions):
        values = numbered(records, size=RECORD, partition=partition)
        produce(flow.source_servers, topic, values, batch_records=BATCH)


def assert_throttled(running: WorkerFlow, topic: str, partitions: int = 2) -> None:
    """The workers show of each partition of this topic that it was held back."""
    remote = running.flow.remote(topic)
    shown = [
        value
        for worker in running.group.workers
        for _, value in metric(worker.url, _THROTTLED, topic=remote)
    ]
    assert len(shown) == partitions
    assert min(shown) > _WORTH_SHOWING_MS
