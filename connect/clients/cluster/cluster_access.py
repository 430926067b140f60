"""The interface through which a copier uses one cluster, except Fetch and Produce.

`ClusterLink` is the real one. A simulated cluster is another (`tests/simulation`): a copier that is
given `ClusterAccess` objects and a loop opens no socket and starts no thread by itself.
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
    """One cluster. No method blocks, except `close`; futures complete on any thread."""

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The newest metadata; version 0 until the first answer."""

    @property
    def failure(self) -> ConnectError | None:
        """Why the last metadata refresh failed; None if it succeeded."""

    def watch_topics(self, names: Collection[str]) -> None:
        """From now on snapshots hold these topics, and no others."""

    def request_refresh(self, topics: Iterable[str] | None = None) -> None:
        """Ask for fresh metadata of these topics, or of all that are watched."""

    def connect(self, node_id: int) -> Future[WireConnection]:
        """A new authenticated connection to a broker of the snapshot; the caller closes it."""

    def init_producer_id(self) -> Future[tuple[int, int]]:
        """A new (producer id, epoch) for idempotent, non-transactional producing."""

    def list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        timestamp: int,
        isolation: Literal[0, 1] = 0,
        timeout_s: float | None = None,
    ) -> Future[Mapping[TopicPartition, OffsetResult]]:
        """The offset at `timestamp` of each partition, or its error."""

    def epoch_ends(
        self, epochs: Mapping[TopicPartition, int], timeout_s: float
    ) -> Future[Mapping[TopicPartition, OffsetResult]]:
        """Where each partition's leader epoch ends in its log, or its error."""

    def close(self) -> None:
        """End all threads and close every connection that was not handed out."""


OpenCluster = Callable[[WireSettings, Callable[[], None], Clock, str], ClusterAccess]
"""(settings, `on_change`, clock, name): as the first arguments of `ClusterLink`. `on_change` is
called, on any thread, after each new snapshot and when refreshing begins to fail."""
