"""Lists offsets of partitions and waits for them, for commands that inspect clusters."""

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
    """Return the earliest (-2) or latest (-1) offsets of these partitions. `link` must have
    metadata for their topics. Raises the first partition's error."""
    if not keys:
        return {}
    found: dict[TopicPartition, int] = {}
    answers = link.list_offsets(keys, timestamp, isolation, _TIMEOUT_S).result(2 * _TIMEOUT_S)
    for key, answer in answers.items():
        if isinstance(answer, ConnectError):
            raise answer
        found[key] = answer
    return found
