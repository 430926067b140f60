"""The interface through which a copier uses one cluster, except Fetch and Produce.

`ClusterLink` implements it for real clusters, and `tests/simulation` for simulated ones. A copier
that is given `ClusterAccess` objects and a loop opens no socket and starts no thread by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from typing import Literal, Protocol

from connect.clients.cluster.list_offsets import OffsetResult
from connect.clients.cluster.metadata import ClusterSnapshot, TopicPartition
from connect.clients.config.settings import WireSettings
from connect.clients.wire.connection import WireConnection
from connect.clock import Clock
from connect.errors import ConnectError

__all__ = ["ClusterAccess", "OpenCluster"]


class ClusterAccess(Protocol):
    """Access to one cluster. Only `close` blocks; futures complete on any thread."""

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The newest metadata; version 0 until the first response."""

    @property
    def failure(self) -> ConnectError | None:
        """Why the last metadata refresh failed; None if it succeeded."""

    def watch_topics(self, names: Collection[str]) -> None:
        """Set the topics that future snapshots contain."""

    def request_refresh(self, topics: Iterable[str] | None = None) -> None:
        """Request fresh metadata of these topics, or of all watched topics."""

    def connect(self, node_id: int) -> Future[WireConnection]:
        """Open an authenticated connection to a broker of the snapshot; the caller closes it."""

    def init_producer_id(self) -> Future[tuple[int, int]]:
        """Get a new (producer id, epoch) for an idempotent, non-transactional producer."""

    def list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        timestamp: int,
        isolation: Literal[0, 1] = 0,
        timeout_s: float | None = None,
    ) -> Future[Mapping[TopicPartition, OffsetResult]]:
        """Return the offset at `timestamp` of each partition, or its error."""

    def epoch_ends(
        self, epochs: Mapping[TopicPartition, int], timeout_s: float
    ) -> Future[Mapping[TopicPartition, OffsetResult]]:
        """Return the end offset of the given leader epoch of each partition, or its error."""

    def close(self) -> None:
        """End all threads, and close the connections that were not handed out."""


OpenCluster = Callable[[WireSettings, Callable[[], None], Clock, str], ClusterAccess]
"""Makes a `ClusterAccess` from (settings, `on_change`, clock, name), the first arguments of
`ClusterLink`. `on_change` is called, on any thread, after each new snapshot and when refreshes
begin to fail.
"""
