"""A topic name and a partition number."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["TopicPartition", "by_topic", "name_of"]

TopicPartition = tuple[str, int]


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition numbers of each topic, in the order of the partitions."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


def name_of(key: TopicPartition) -> str:
    return f"{key[0]}-{key[1]}"
