"""A fetch session with a source broker, and at most one fetch in flight.

Topics are named by their IDs where the broker supports that (Kafka 3.1): it then never answers from
another topic that was created under the same name since.

The next fetch is sent before the batches of the last one are processed, so that the broker works in
parallel.
"""

from __future__ import annotations

import logging
import sys
from typing import Protocol, TypedDict

from connect.clients.cluster.broker_node import PATIENCE_S, BrokerNode
from connect.clients.cluster.fetch_session import STALE_SESSION, FetchSession, SessionRequest
from connect.clients.config.settings import DEFAULT_MAX_PARTITION_FETCH_BYTES
from connect.clients.errors import error_from_code
from connect.clients.wire.channel import Channel, Response
from connect.errors import ConnectError
from connect.protocol.fetch_by_id import (
    FETCH_BY_ID_VERSION,
    encode_fetch_by_id,
    parse_fetch_by_id,
)
from connect.protocol.messages import (
    FETCH_API,
    FETCH_VERSION,
    FetchPartition,
    FetchResponse,
    encode_fetch,
    parse_fetch,
)
from connectors.mirror.copy.context import CopyContext, MetadataChanged
from connectors.mirror.copy.memory import FetchBuffer
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.throttle import Throttle

__all__ = ["FetchResponses", "SourceNode"]

_LOG = logging.getLogger(__name__)

HELD_WAIT_MS = 5
"""How long a fetch may wait at the broker while partitions are held back, because they can only
join the next one."""

LATE_S = 1.0
"""A response counts as late if it exceeds the broker's maximum wait by this much. Round trips
around the world take less than half a second."""

_ERROR_PAUSE_S = 0.5

_CONVERSION_S = 0.25
"""The longest that the batches of one response should take to be converted, because the engine's
thread does nothing else meanwhile. Shallow batches take a hundredth; transformed records may take
milliseconds each."""
_LEAST_BYTES = 16 * 1024
"""The least that is requested of records that take long. A broker returns at least one batch."""

LIVE_SHARE, LIVE_PARTITION_SHARE = 4, 16
"""A fetch of new records returns at most these fractions of `max.partition.fetch.bytes`: in all,
while other partitions of the broker are far behind, and of one partition. The records of some
milliseconds are less than 1 MiB and 256 KiB, which the defaults allow."""


class FetchResponses(Protocol):
    """The receiver of a node's responses."""

    def on_fetched(self, node: SourceNode, response: FetchResponse, buffer: FetchBuffer) -> None:
        """Handle a response, whose records are in `buffer`."""

    def on_source_lost(self, node: SourceNode, error: ConnectError) -> None:
        """Handle a lost connection, or a fetch that the broker refused."""


class _Limits(TypedDict):
    """What requests by name and by ID have in common."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: int
    session_id: int
    session_epoch: int
    rack: str


class SourceNode(BrokerNode):
    """A fetch session with one source broker. `backlog`: only of partitions that are far behind.
    `held` counts its partitions that are left out because enough of their batches wait."""

    role = "source broker"
    speaks = (FETCH_API, FETCH_VERSION, "Fetch")

    def __init__(
        self,
        node_id: int,
        context: CopyContext,
        throttle: Throttle,
        responses: FetchResponses,
        *,
        backlog: bool = False,
    ) -> None:
        budget, settings = context.budget, context.settings
        super().__init__(node_id, context.source, settings.source, context.loop, budget.pool)
        self._context = context
        self._budget = budget
        self._fetch = settings.fetch
        self._throttle = throttle
        self._responses = responses
        self._session = FetchSession()
        self.by_id = False
        """Whether the last request named topics by their IDs."""
        if not backlog:
            budget.readers += 1
        self.backlog = backlog
        self.other: SourceNode | None = None
        """The other session with this broker."""
        self._joining: dict[PartitionCopy, None] = {}
        """Partitions that the other session fetches until the next request of this one."""
        self._partitions = context.partitions
        self._reserved = 0
        self._fetch_ms = context.fetch_ms
        self._sent_at = self._due_at = self._late_s = 0.0
        """When the awaited response was requested, when it should come at the latest, over a fast
        link, and how much of its delay is counted."""
        self.waits_since: float | None = None
        """Since when a response is awaited, including earlier connections to this broker."""
        self._seen_bytes: tuple[Channel, float, int] | None = None
        """Bytes seen of the connection while the response was awaited since then."""
        self.arriving_at = 0.0
        """When bytes of an awaited response were last seen to arrive, by `look_for_bytes`."""
        self._silent_until = 0.0
        self.most_bytes = sys.maxsize
        """The largest response that is converted in time, judging from the last one."""
        self.held = 0
        self.paused = not context.fetching

    def needed(self) -> bool:
        return not self._session.empty

    def on_connected(self) -> None:
        assert self.channel is not None
        by_id = self.channel.supports(FETCH_API, FETCH_BY_ID_VERSION)
        if by_id is not self._context.source_by_id:
            self._context.source_by_id = by_id
            self._context.post(MetadataChanged())

    def want(self, partition: PartitionCopy) -> None:
        """Fetch this partition from its position on."""
        if self.other is not None and partition in self._joining:
            self.other.want(partition)
        self._session.want(
            partition.source,
            FetchPartition(
                partition.position,
                partition.source_epoch,
                self._throttle.fetch_bytes_of(partition, self._usual_partition_bytes()),
                partition.log_number,
                partition.source_topic_id,
            ),
        )

    def _usual_partition_bytes(self) -> int:
        """Return the configured partition size, or the share of a fetch that this round-trip time
        allows."""
        given = self._fetch.max_partition_fetch_bytes
        if not (self.backlog or self._throttle.on):
            return max(1, given // LIVE_PARTITION_SHARE)
        if given != DEFAULT_MAX_PARTITION_FETCH_BYTES:
            return given
        return max(given, self._budget.response_bytes(self.round_trip_s))

    def take_over(self, partition: PartitionCopy) -> None:
        """Fetch this partition instead of the other session, from the next request on."""
        other = self.other
        if other is None:
            return
        if partition in other._joining:
            # It comes back before the other session has begun.
            del other._joining[partition]
            other.drop(partition)
        elif other._session.wants(partition.source):
            self._joining[partition] = None

    def drop(self, partition: PartitionCopy) -> None:
        """Stop fetching this partition."""
        if self.other is not None and partition in self._joining:
            del self._joining[partition]
            self.other.drop(partition)
        self._session.drop(partition.source)
        if self._session.empty:
            self.waits_since = None

    def answers(self, partition: PartitionCopy) -> bool:
        """Whether the last response was for the partition's current position, in its current log.

        A log with a newer leader epoch may have been truncated. Log validation checks that. If the
        truncation is at or after the position, copying continues without a move.
        """
        asked = self._session.requested(partition.source)
        return asked is not None and (asked.offset, asked.leader_epoch, asked.log) == (
            partition.position,
            partition.source_epoch,
            partition.log_number,
        )

    @property
    def patience_s(self) -> float:
        return PATIENCE_S + self._fetch.fetch_max_wait_ms / 1000

    def pump(self) -> None:
        if self._reserved:
            return
        channel = self.channel if self._may_fetch() else None
        if channel is None:
            self._budget.withdraw(self)
            self._note_waiting_to_connect()
            return
        self._budget.reach(self.round_trip_s)
        most = min(self._fetch.fetch_max_bytes, self.most_bytes)
        size = min(most, self._budget.response_bytes(self.round_trip_s))
        urgent = not self.backlog and self.other is not None and self.other.needed()
        if urgent:
            live = self._fetch.max_partition_fetch_bytes // LIVE_SHARE
            size = max(1, min(size // 2, live))
        if self._throttle.limits_flow:
            size = self._throttle.fetch_size(size, self._session.smallest_request())
        if not self._budget.admit(self, size, urgent=urgent):
            return
        by_id = self._session.has_ids and channel.supports(FETCH_API, FETCH_BY_ID_VERSION)
        if by_id != self.by_id:
            self._session.reset()
            self.by_id = by_id
        request = self._session.next_request()
        self._take_joined()
        wait_ms = self._fetch.fetch_max_wait_ms
        if self.held:
            wait_ms = min(wait_ms, HELD_WAIT_MS)
        elif self._throttle.on:
            wait_ms = self._throttle.wait_ms(wait_ms)
        body = self._encode(request, wait_ms, size)
        self._reserve(size)
        self._note_waiting()
        self._sent_at, self._late_s = self._loop.now(), 0.0
        self._due_at = self._sent_at + wait_ms / 1000
        deadline = self._due_at + self._settings.request_timeout_ms / 1000
        try:
            version = FETCH_BY_ID_VERSION if by_id else FETCH_VERSION
            channel.send(FETCH_API, version, [body], len(body), deadline, self._answered)
            self._loop.update(channel)
        except ConnectError as error:
            self.lose_soon(channel, error)

    def _encode(self, request: SessionRequest, wait_ms: int, size: int) -> bytes:
        most = _Limits(
            max_wait_ms=wait_ms,
            min_bytes=self._fetch.fetch_min_bytes,
            max_bytes=size,
            isolation=self._fetch.isolation_level,
            session_id=request.session_id,
            session_epoch=request.epoch,
            rack=self._fetch.client_rack,
        )
        if self.by_id:
            return encode_fetch_by_id(request.partitions, request.forgotten_ids, **most)
        return encode_fetch(request.partitions, request.forgotten, **most)

    def _take_joined(self) -> None:
        """Let the other session stop to fetch what the request has."""
        joined, self._joining = self._joining, {}
        for partition in joined:
            if self.other is not None:
                self.other.drop(partition)

    def _note_waiting(self) -> None:
        if self.waits_since is None:
            self.waits_since = self._loop.now()

    def look_for_bytes(self) -> None:
        """Called every second. A large response over a slow link takes longer than a broker may be
        silent, but its bytes arrive. Bytes of responses that came whole since the last call do not
        count: they do not explain why a partition waits."""
        if self._reserved:
            self._count_late()
        channel = self.channel
        if channel is None or self.waits_since is None:
            self._seen_bytes = None
            return
        seen = self._seen_bytes
        same = seen is not None and seen[:2] == (channel, self.waits_since)
        if seen is not None and same and channel.bytes_in > seen[2]:
            self.arriving_at = self._loop.now()
        self._seen_bytes = (channel, self.waits_since, channel.bytes_in)

    @property
    def silent_since(self) -> float | None:
        """Return since when a response is awaited of which no bytes arrive; None if none is
        awaited."""
        return None if self.waits_since is None else max(self.waits_since, self.arriving_at)

    def _note_waiting_to_connect(self) -> None:
        if self.paused:
            self.waits_since = None
        elif self.channel is None and self.needed() and not self._throttle.holds:
            self._note_waiting()

    def _may_fetch(self) -> bool:
        return (
            not self.paused
            and not self._throttle.holds
            and not self._session.empty
            and self.sendable
            and self._loop.now() >= self._silent_until
        )

    def _reserve(self, size: int) -> None:
        """Reserve the memory that the response may need."""
        self._budget.used += size - self._reserved
        self._reserved = size

    def _answered(self, response: Response) -> None:
        self._reserve(0)
        self.waits_since = None
        if self.by_id:
            fetched = parse_fetch_by_id(response.body, self._session.names)
        else:
            fetched = parse_fetch(response.body)
        now = self._loop.now()
        self._fetch_ms.record((now - self._sent_at) * 1000, int(now * 1000))
        self._count_late()
        self.throttle(fetched.throttle_ms)
        buffer = FetchBuffer(self._budget, response.buffer, held=True)
        try:
            if fetched.error:
                self._refused(fetched.error)
            else:
                self._session.accepted(fetched.session_id)
                self.error = None
                self._responses.on_fetched(self, fetched, buffer)
                self._note_conversion(len(response.body), self._loop.now() - now)
        finally:
            buffer.release()
        self.pump()

    def _note_conversion(self, size: int, took_s: float) -> None:
        """Limit the next responses, judging from one of `size` bytes. Small ones tell little."""
        if size < _LEAST_BYTES:
            return
        most = max(_LEAST_BYTES, round(size * _CONVERSION_S / took_s)) if took_s else sys.maxsize
        for session in (self, self.other):
            if session is not None:
                session.most_bytes = most

    def _count_late(self) -> None:
        """Count by how much the awaited response is late by now, once for each task that has
        partitions here."""
        late_s = self._loop.now() - self._due_at
        if late_s < LATE_S:
            return
        more_s, self._late_s = late_s - self._late_s, late_s
        key = (self.node_id, self.backlog)
        mine = (each for each in self._partitions.values() if each.source_key == key)
        for totals in {partition.metrics.totals for partition in mine}:
            totals.late_s += more_s

    def _refused(self, code: int) -> None:
        self._session.reset()
        if code in STALE_SESSION:
            return
        error = error_from_code(code, f"fetch from {self.role} {self.node_id}")
        if self.error is None:
            _LOG.warning("%s; retrying", error)
        self.error = str(error)
        self._silent_until = self._loop.now() + _ERROR_PAUSE_S
        self._loop.after(_ERROR_PAUSE_S, self._pump_if_open)
        self._responses.on_source_lost(self, error)

    def on_lost(self, error: ConnectError) -> None:
        self._reserve(0)
        self._budget.withdraw(self)
        self._session.reset()
        self._responses.on_source_lost(self, error)
