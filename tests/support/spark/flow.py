"""Properties of flows that are copied on Spark, and what they have copied."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaException

from tests.support.flows.mirrored import MirroredFlow
from tests.support.records.reading import read_partition
from tests.support.records.topics import end_offsets
from tests.support.waiting import wait_until

__all__ = ["ONCE", "SPARK", "START_S", "STOP_S", "committed"]


SPARK = {
    "A->B.mirror.engine": "spark",
    "A->B.spark.master": "local[2]",
    "A->B.mirror.spark.batch.ms": "1000",
    # What is stored is stored by clean stops, which have time on a busy machine.
    "B.offset.flush.interval.ms": "600000",
    "B.task.shutdown.graceful.timeout.ms": "20000",
}
ONCE = {
    "A.consumer.isolation.level": "read_committed",
    "B.exactly.once.source.support": "enabled",
}
# On a busy machine a session alone takes minutes.
START_S, STOP_S = 300.0, 40.0


def committed(flow: MirroredFlow, topic: str, counts: Mapping[int, int]) -> None:
    """Until readers of committed records of the copy see so many, by partition."""
    remote = flow.wait_created(topic, START_S)

    def seen() -> bool:
        try:
            found = {
                number: read_partition(
                    flow.target_servers, remote, number, isolation="read_committed"
                )
                for number in end_offsets(flow.target_servers, remote)
            }
        except KafkaException:
            return False  # a partition that was just created has no leader yet
        return all(len(found.get(number, ())) >= count for number, count in counts.items())

    wait_until(seen, START_S, f"{counts} of {remote}")
