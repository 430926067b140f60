"""Requests start and end offsets of the source's partitions periodically, over kept connections.

Shards are planned from these offsets. A `ClusterLink` would open a connection for each request,
which is too expensive twice a second.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from typing import Any, Literal
from uuid import UUID

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.cluster.list_offsets import OffsetResult, OffsetsQuery, OpenNode, list_offsets
from connect.clients.cluster.metadata import ClusterSnapshot
from connect.clients.config.settings import WireSettings
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConnectError
from connect.protocol.messages import TopicPartition

__all__ = ["Found", "SourceOffsets"]

_ASK_TIMEOUT_S = 5.0
"""Partitions with a response wait no longer than this for the others."""

_KEPT_S = 300.0
"""A kept connection is replaced after this time, or before its SASL session ends."""

Found = Mapping[TopicPartition, OffsetResult]
"""The offset of each partition, or an error."""


class SourceOffsets:
    """Requests offsets. Responses are delivered on its own threads."""

    def __init__(
        self, settings: WireSettings, isolation: Literal[0, 1], clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._isolation: Literal[0, 1] = isolation
        self._clock = clock
        self._link = ClusterLink(settings, lambda: None, clock, "spark-engine-source")
        self._nodes = _KeptNodes(self._link, clock)

    def watch(self, topics: Collection[str]) -> None:
        """Set the topics whose partitions are requested."""
        self._link.watch_topics(topics)

    def refresh_topic_ids(self, topics: Collection[str]) -> None:
        """Request the IDs of these watched topics, without blocking."""
        self._link.request_refresh(topics)

    @property
    def topic_ids(self) -> Mapping[str, UUID]:
        """Return the IDs of the watched topics, as far as known. A changed state is a new
        mapping."""
        return self._link.snapshot.topic_ids

    def ask(
        self,
        partitions: Iterable[TopicPartition],
        timestamp: int,
        answer: Callable[[Found | ConnectError], None],
    ) -> None:
        """Request offsets. `answer` receives the offsets at `timestamp` (EARLIEST, LATEST) or an
        error; nothing after `close`."""
        wanted = frozenset(partitions)
        query = OffsetsQuery(timestamp, self._isolation)

        def work() -> Found:
            return list_offsets(self._nodes, wanted, query, Deadline(_ASK_TIMEOUT_S, self._clock))

        def done(future: Future[Found]) -> None:
            try:
                answer(future.result(timeout=0))
            except CancelledError:
                return
            except ConnectError as error:
                answer(error)

        try:
            self._link.run_aside("list-source-offsets", work).add_done_callback(done)
        except ConnectError as error:
            answer(error)

    def close(self) -> None:
        """Close every connection and thread."""
        self._link.close()
        self._nodes.close()


class _KeptNodes:
    """The link's cluster for `list_offsets`, with connections that are kept between requests."""

    def __init__(self, link: ClusterLink, clock: Clock) -> None:
        self._link = link
        self._clock = clock
        self._lock = threading.Lock()
        self._idle: dict[int, _Kept] = {}
        self._closed = False

    @property
    def snapshot(self) -> ClusterSnapshot:
        return self._link.snapshot

    def is_watched(self, topic: str) -> bool:
        return self._link.is_watched(topic)

    def open_node(self, node_id: int, deadline: Deadline) -> OpenNode:
        with self._lock:
            kept = self._idle.pop(node_id, None)
        if kept is not None:
            if self._clock.monotonic() < kept.until:
                return kept
            kept.connection.close()
        connection = self._link.open_node(node_id, deadline)
        lifetime_ms = connection.session_lifetime_ms
        seconds = min(_KEPT_S, lifetime_ms / 1000 * 0.8) if lifetime_ms else _KEPT_S
        return _Kept(self, node_id, connection, self._clock.monotonic() + seconds)

    def attempt_deadline(self, deadline: Deadline) -> Deadline:
        return self._link.attempt_deadline(deadline)

    def refresh_and_wait(self, topics: Iterable[str], attempt: int, deadline: Deadline) -> None:
        self._link.refresh_and_wait(topics, attempt, deadline)

    def run_aside(self, what: str, function: Callable[[], Any]) -> Future[Any]:
        return self._link.run_aside(what, function)

    def keep(self, kept: _Kept) -> None:
        with self._lock:
            before = kept if self._closed else self._idle.get(kept.node_id)
            if not self._closed:
                self._idle[kept.node_id] = kept
        if before is not None:
            before.connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = list(self._idle.values()), {}
        for kept in idle:
            kept.connection.close()


class _Kept:
    """One connection, for one request at a time. `close` returns it for reuse if it is still
    usable."""

    def __init__(self, nodes: _KeptNodes, node_id: int, connection: OpenNode, until: float) -> None:
        self.node_id = node_id
        self.connection = connection
        self.until = until
        self._nodes = nodes
        self._good = False

    def __str__(self) -> str:
        return str(self.connection)

    def call(self, request: Any, deadline: Deadline) -> Any:
        self._good = False
        response = self.connection.call(request, deadline)
        self._good = True
        return response

    def close(self) -> None:
        if self._good:
            self._nodes.keep(self)
        else:
            self.connection.close()
