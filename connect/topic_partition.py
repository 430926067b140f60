"""A topic name and a partition number."""

from __future__ import annotations

__all__ = ["TopicPartition"]

TopicPartition = tuple[str, int]
