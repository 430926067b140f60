"""Offsets of partitions, asked for once and waited for: for commands that look at clusters."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from connect.clients.cluster.cluster_link import ClusterLink
from connect.errors import ConnectError
from connect.protocol.messages import TopicPartition

__all__ = ["listed"]

_TIMEOUT_S = 60.0


def listed(
    link: ClusterLink, keys: Collection[TopicPartition], timestamp: int, isolation: Literal[0, 1]
) -> dict[TopicPartition, int]:
    """Offsets of these partitions at a time, -2 or -1. `link` watches their topics. Raises the
    first partition's error."""
    if not keys:
        return {}
    found: dict[TopicPartition, int] = {}
    answers = link.list_offsets(keys, timestamp, isolation, _TIMEOUT_S).result(2 * _TIMEOUT_S)
    for key, answer in answers.items():
        if isinstance(answer, ConnectError):
            raise answer
        found[key] = answer
    return found
