"""Look up the size of partitions on their leaders' disks (DescribeLogDirs)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import closing
from typing import Any

from kafka.protocol.admin import DescribeLogDirsRequest

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.cluster.metadata import TopicPartition
from connect.clients.errors import error_from_code
from connect.clock import Deadline
from connect.errors import ConnectError
from connect.topic_partition import by_topic

__all__ = ["partition_sizes"]

Topic = DescribeLogDirsRequest.DescribableLogDirTopic


def partition_sizes(
    link: ClusterLink, partitions: Collection[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, int]:
    """Return the log size in bytes of each partition whose leader reports it.

    `link` must watch the topics. Raises one of `connect.errors` if a broker does not answer or
    refuses; the call needs DESCRIBE on the cluster.
    """
    by_leader: dict[int, set[TopicPartition]] = defaultdict(set)
    leaders = link.snapshot.leaders
    for key in partitions:
        if key in leaders:
            by_leader[leaders[key][0]].add(key)
    asked = [
        (keys, link.run_aside(f"log-sizes-{node}", _asker(link, node, keys, deadline)))
        for node, keys in by_leader.items()
    ]
    sizes: dict[TopicPartition, int] = {}
    failure: ConnectError | None = None
    for keys, future in asked:
        try:
            found: dict[TopicPartition, int] = future.result()
        except ConnectError as error:
            failure = failure or error
            continue
        sizes.update({key: size for key, size in found.items() if key in keys})
    if failure is not None:
        raise failure
    return sizes


def _asker(
    link: ClusterLink, node: int, keys: Collection[TopicPartition], deadline: Deadline
) -> Callable[[], dict[TopicPartition, int]]:
    topics = by_topic(sorted(keys))
    request = DescribeLogDirsRequest(
        topics=[Topic(topic=name, partitions=numbers) for name, numbers in topics.items()]
    )

    def ask() -> dict[TopicPartition, int]:
        limit = link.attempt_deadline(deadline)
        with closing(link.open_node(node, limit)) as connection:
            return _sizes(connection.call(request, limit), connection)

    return ask


def _sizes(response: Any, where: object) -> dict[TopicPartition, int]:
    # Brokers before 3.3 return an empty response when access is denied.
    code = getattr(response, "error_code", 0)
    if code:
        raise error_from_code(code, f"DescribeLogDirs at {where}", needs="Describe on the cluster")
    return {
        (topic.name, found.partition_index): found.partition_size
        for directory in response.results
        if not directory.error_code
        for topic in directory.topics
        for found in topic.partitions
        if not found.is_future_key
    }
