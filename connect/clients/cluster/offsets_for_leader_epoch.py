"""Look up where a leader epoch ends in the current log, with OffsetForLeaderEpoch requests.

A record that was read in an epoch is still there if the epoch ends after it. Otherwise the log was
truncated, for example after an unclean leader election, and other records have or will get these
offsets (KIP-320).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from connect.clients.cluster.list_offsets import Cluster, OffsetResult, list_offsets
from connect.clients.cluster.metadata import TopicPartition
from connect.clients.errors import error_from_code
from connect.clock import SYSTEM_CLOCK, Clock, Deadline

__all__ = ["EpochQuery", "epoch_ends"]

CONSUMER_REPLICA_ID = -1
Topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
Partition = Topic.OffsetForLeaderPartition


class EpochQuery:
    """A query for the end of one epoch of each partition."""

    def __init__(self, epochs: Mapping[TopicPartition, int]) -> None:
        self._epochs = epochs

    def request(self, epochs: Mapping[TopicPartition, int], timeout_ms: int) -> Any:
        """Return the request for one leader's partitions, each with its known leader epoch."""
        by_topic: dict[str, list[Any]] = defaultdict(list)
        for (topic, partition), current in sorted(epochs.items()):
            by_topic[topic].append(
                Partition(
                    partition=partition,
                    current_leader_epoch=current,
                    leader_epoch=self._epochs[topic, partition],
                )
            )
        topics = [Topic(topic=name, partitions=parts) for name, parts in by_topic.items()]
        return OffsetForLeaderEpochRequest(replica_id=CONSUMER_REPLICA_ID, topics=topics)

    def results(self, response: Any, where: object) -> dict[TopicPartition, OffsetResult]:
        found: dict[TopicPartition, OffsetResult] = {}
        for topic in response.topics:
            for answer in topic.partitions:
                key = (topic.topic, answer.partition)
                if answer.error_code:
                    what = f"OffsetForLeaderEpoch of {topic.topic}-{answer.partition} at {where}"
                    found[key] = error_from_code(answer.error_code, what)
                else:
                    found[key] = answer.end_offset
        return found


def epoch_ends(
    cluster: Cluster,
    epochs: Mapping[TopicPartition, int],
    timeout_s: float,
    clock: Clock = SYSTEM_CLOCK,
) -> Future[Mapping[TopicPartition, OffsetResult]]:
    """Return the end offset of each partition's epoch, or of the last epoch before it.

    The result is `UNKNOWN_END` if the leader knows neither, or the partition's error. Retriable
    errors are retried for `timeout_s`.
    """
    wanted = dict(epochs)
    deadline = Deadline(timeout_s, clock)

    def work() -> Mapping[TopicPartition, OffsetResult]:
        return list_offsets(cluster, wanted, EpochQuery(wanted), deadline)

    return cluster.run_aside("epoch-ends", work)
