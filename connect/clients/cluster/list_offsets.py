"""Look up offsets by timestamp with ListOffsets requests to all leaders of a cluster.

Partitions are grouped by leader. Each leader is queried on its own connection and thread, so that
one that hangs delays only its own partitions. Retriable errors are retried with the leaders of
newer metadata until the deadline.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import closing
from typing import Any, Protocol

from kafka.protocol.consumer import ListOffsetsRequest

from connect.clients.cluster.metadata import ClusterSnapshot, TopicPartition
from connect.clients.errors import error_from_code
from connect.clock import Deadline
from connect.errors import ConnectError, CorruptData, RetriableError

__all__ = [
    "EARLIEST",
    "LATEST",
    "Cluster",
    "LeaderQuery",
    "OffsetResult",
    "OffsetsQuery",
    "OpenNode",
    "list_offsets",
]

EARLIEST, LATEST = -2, -1
"""Special timestamps: the log's first offset, and its end offset."""

OffsetResult = int | ConnectError
CONSUMER_REPLICA_ID = -1
Topic = ListOffsetsRequest.ListOffsetsTopic
Partition = Topic.ListOffsetsPartition


class LeaderQuery(Protocol):
    """A request to partition leaders that has one offset for each partition as its result. Pure."""

    def request(self, epochs: Mapping[TopicPartition, int], timeout_ms: int) -> Any:
        """Return the request for one leader's partitions, each with its known leader epoch."""

    def results(self, response: Any, where: object) -> dict[TopicPartition, OffsetResult]:
        """Return the result of each partition in the response."""


class OffsetsQuery:
    """A query for the offset at one timestamp, for all partitions."""

    def __init__(self, timestamp: int, isolation: int) -> None:
        self.timestamp = timestamp
        self.isolation = isolation

    def request(self, epochs: Mapping[TopicPartition, int], timeout_ms: int) -> Any:
        """Return the request for one leader's partitions, each with its known leader epoch."""
        by_topic: dict[str, list[Any]] = defaultdict(list)
        for (topic, partition), epoch in sorted(epochs.items()):
            by_topic[topic].append(
                Partition(
                    partition_index=partition,
                    current_leader_epoch=epoch,
                    timestamp=self.timestamp,
                )
            )
        topics = [Topic(name=name, partitions=parts) for name, parts in by_topic.items()]
        return ListOffsetsRequest(
            replica_id=CONSUMER_REPLICA_ID,
            isolation_level=self.isolation,
            topics=topics,
            timeout_ms=timeout_ms,
        )

    def results(self, response: Any, where: object) -> dict[TopicPartition, OffsetResult]:
        found: dict[TopicPartition, OffsetResult] = {}
        for topic in response.topics:
            for answer in topic.partitions:
                key = (topic.name, answer.partition_index)
                if answer.error_code:
                    what = f"ListOffsets of {topic.name}-{answer.partition_index} at {where}"
                    needs = f"Describe on topic {topic.name}"
                    found[key] = error_from_code(answer.error_code, what, needs=needs)
                elif answer.offset < 0 and self.timestamp < 0:
                    # Only a timestamp after the last record has no offset.
                    found[key] = CorruptData(
                        f"{where} returned the invalid offset {answer.offset} for {topic.name}"
                    )
                else:
                    found[key] = answer.offset
        return found


class OpenNode(Protocol):
    """A connection to a node; `str` of it names the node."""

    def call(self, request: Any, deadline: Deadline) -> Any:
        """Send a request and wait for its response. Raises one of `connect.errors`."""

    def close(self) -> None: ...


class Cluster(Protocol):
    """The part of a cluster link that listing needs. Every method may be called from any thread."""

    @property
    def snapshot(self) -> ClusterSnapshot: ...

    def is_watched(self, topic: str) -> bool: ...

    def open_node(self, node_id: int, deadline: Deadline) -> OpenNode: ...

    def attempt_deadline(self, deadline: Deadline) -> Deadline:
        """Return the deadline of one attempt within `deadline`."""

    def refresh_and_wait(self, topics: Iterable[str], attempt: int, deadline: Deadline) -> None:
        """Request fresh metadata, and return when it has arrived and a backoff has passed.

        Raises if the link closes.
        """

    def run_aside(self, what: str, function: Callable[[], Any]) -> Future[Any]: ...


def list_offsets(
    cluster: Cluster, partitions: Iterable[TopicPartition], query: LeaderQuery, deadline: Deadline
) -> dict[TopicPartition, OffsetResult]:
    """Return the offset of each partition, or its error. Blocks until `deadline` at most."""
    done: dict[TopicPartition, OffsetResult] = {}
    waiting = set(partitions)
    attempt = 0
    while waiting:
        answers = _ask_all(cluster, waiting, query, deadline)
        for key, answer in answers.items():
            done[key] = answer
            if not (isinstance(answer, ConnectError) and answer.retriable):
                waiting.discard(key)
        if not waiting or deadline.expired():
            break
        cluster.refresh_and_wait({topic for topic, _ in waiting}, attempt, deadline)
        if deadline.expired():
            break
        attempt += 1
    return done


def _ask_all(
    cluster: Cluster, partitions: Iterable[TopicPartition], query: LeaderQuery, deadline: Deadline
) -> dict[TopicPartition, OffsetResult]:
    """Run one round: every partition gets an offset or an error."""
    snapshot = cluster.snapshot
    answers: dict[TopicPartition, OffsetResult] = {}
    by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
    for key in partitions:
        leader = snapshot.leaders.get(key)
        if leader is None:
            answers[key] = _leaderless(cluster, snapshot, key)
        else:
            by_leader[leader[0]][key] = leader[1]
    limit = cluster.attempt_deadline(deadline)
    asked: list[tuple[dict[TopicPartition, int], Future[Any]]] = []
    for node_id, epochs in by_leader.items():
        ask = _asker(cluster, node_id, epochs, query, limit)
        asked.append((epochs, cluster.run_aside(f"list-offsets-{node_id}", ask)))
    for epochs, future in asked:
        try:
            found: Mapping[TopicPartition, OffsetResult] = future.result()
        except ConnectError as error:
            found = dict.fromkeys(epochs, error)
        for key in epochs:
            missing = RetriableError(
                f"the leader of {key[0]}-{key[1]} left the partition out of its response"
            )
            answers[key] = found.get(key, missing)
    return answers


def _asker(
    cluster: Cluster,
    node_id: int,
    epochs: Mapping[TopicPartition, int],
    query: LeaderQuery,
    limit: Deadline,
) -> Callable[[], dict[TopicPartition, OffsetResult]]:
    def ask() -> dict[TopicPartition, OffsetResult]:
        with closing(cluster.open_node(node_id, limit)) as connection:
            request = query.request(epochs, round(limit.remaining() * 1000))
            return query.results(connection.call(request, limit), connection)

    return ask


def _leaderless(cluster: Cluster, snapshot: ClusterSnapshot, key: TopicPartition) -> ConnectError:
    topic, partition = key
    if not cluster.is_watched(topic):
        return ConnectError(f"ListOffsets of {topic}-{partition}: the topic is not watched")
    code = snapshot.errors.get(topic) or snapshot.partition_errors.get(key)
    if code:
        what = f"Metadata of {topic}-{partition}"
        return error_from_code(code, what, needs=f"Describe on topic {topic}")
    return RetriableError(f"{topic}-{partition} has no known leader")
