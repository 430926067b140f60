"""A partition's name: its topic's, and its number."""

from __future__ import annotations

__all__ = ["TopicPartition"]

TopicPartition = tuple[str, int]
