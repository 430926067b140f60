"""Detects partitions without progress, and since when, even if there is no error.

A partition is healthy when it makes progress or is caught up according to a recent response. A
silent broker, an unserved queue and a bug of the copier look the same here, and all are reported.
For partitions that are not fetched, both ends of the source's log are requested now and then, so
that their lag and time to loss stay correct.

Runs on the copy engine's thread, once a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from connect.clients.cluster.list_offsets import EARLIEST, LATEST, OffsetResult
from connect.errors import ConnectError
from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.brokers.source import SourceNode
from connectors.mirror.copy.brokers.target import TargetNode
from connectors.mirror.copy.context import CopyContext
from connectors.mirror.copy.partition.partition import UNKNOWN, PartitionCopy
from connectors.mirror.copy.throttle import Throttle

__all__ = ["Commits", "StallDetector"]

_SILENT_S = 5.0
"""Time without a response before it is reported, in addition to the time that a fetch may wait at
the broker."""
_IDLE_S = 10.0
"""Records may wait this long for an acknowledgement."""
_QUOTA_S = 60.0
"""A broker's throttle explains missing progress for this long. Brokers throttle up to the length of
their quota windows, 11 s by default."""
_HANGING_S = 960.0
"""A transaction that is open for this long is hanging: brokers abort transactions after
transaction.max.timeout.ms, 15 minutes by default. Shorter ones are normal."""
_PROBE_EVERY_S = 10.0
_ASK_TIMEOUT_S = 5.0


class Commits(Protocol):
    """The transactions of the engine: under exactly-once a record counts as copied once it is
    committed."""

    @property
    def length_s(self) -> float:
        """Return how long a transaction lasts at most while there is more to send."""

    @property
    def aborted_because(self) -> str | None:
        """Return why the last transaction was aborted; None: it was committed."""

    def begun(self, partition: PartitionCopy) -> int | None:
        """Return a partition's source offset before the open transaction; None: it has no part in
        it."""


class StallDetector:
    """Finds stalled partitions."""

    def __init__(
        self, context: CopyContext, throttle: Throttle, commits: Commits | None = None
    ) -> None:
        """`commits` None: batches are not written in transactions."""
        fetch = context.settings.fetch
        self._context = context
        self._throttle = throttle
        self._commits = commits
        self._link = context.source
        self._loop = context.loop
        self._isolation = fetch.isolation_level
        self._silent_s = _SILENT_S + fetch.fetch_max_wait_ms / 1000
        self._probe_at = 0.0
        self._nodes: Mapping[tuple[int, bool], SourceNode] = {}
        self._asked = 0

    def silent(self, nodes: Mapping[tuple[int, bool], SourceNode]) -> list[int]:
        """Return the brokers of the source that do not respond."""
        long_ago = self._loop.polled_at - self._silent_s
        return [
            number
            for (number, _), node in nodes.items()
            if node.silent_since is not None and node.silent_since < long_ago
        ]

    def look(
        self,
        partitions: Iterable[PartitionCopy],
        nodes: Mapping[tuple[int, bool], SourceNode],
        targets: Mapping[int, TargetNode],
    ) -> None:
        """Call once a second. `partitions`: all that are not at rest. `nodes`: of the source."""
        self._nodes = nodes
        paused = not self._context.fetching  # On purpose.
        now = self._loop.now()
        unfetched: dict[TopicPartition, PartitionCopy] = {}
        for partition in partitions:
            waits = partition.limited_by and not partition.queue and not partition.in_flight
            position, caught_up = self._copied(partition)
            copied, (before, since) = partition.copied(position), partition.progress
            grew = copied[0] > before[0] or copied[1] > before[1]
            partition.progress = (copied, now if paused or waits or caught_up or grew else since)
            if not partition.held_back or paused:
                partition.held_since = now
            partition.stall = None if paused else self._stall(partition, nodes, targets, now)
            ill = partition.error is not None
            partition.metrics.set_stuck(ill)
            if self._is_unfetched(partition) and partition.position != UNKNOWN:
                unfetched[partition.source] = partition
        if unfetched and now >= self._probe_at and not self._asked:
            self._probe_at = now + _PROBE_EVERY_S
            self._probe(unfetched)

    def _copied(self, partition: PartitionCopy) -> tuple[int, bool]:
        """Return the source offset up to which the partition is copied permanently, and whether it
        is caught up."""
        begun = None if self._commits is None else self._commits.begun(partition)
        if begun is None:
            return partition.acked_position, partition.lag == 0
        return begun, False

    def _is_unfetched(self, partition: PartitionCopy) -> bool:
        """Whether no fetch response shows where its log ends now: it is not fetched, or a large
        response takes long to arrive. A limit may hold back a partition that looks caught up."""
        held = partition.limited_by is not None or partition.paced or self._throttle.holds
        if held or partition.error is not None:
            return True
        node = self._nodes.get(partition.source_key)
        since = None if node is None else node.waits_since
        return since is not None and self._loop.polled_at - since > self._silent_s

    def _stall(
        self,
        partition: PartitionCopy,
        nodes: Mapping[tuple[int, bool], SourceNode],
        targets: Mapping[int, TargetNode],
        now: float,
    ) -> str | None:
        if partition.leaving or partition.done:
            return None
        node = nodes.get(partition.source_key)
        waits = None if node is None else node.silent_since
        polled_at = self._loop.polled_at
        if waits is not None and polled_at - waits > self._silent_s and not partition.in_flight:
            return (
                f"source broker {partition.source_node} has not responded {self._ago(now, waits)}"
            )
        if now - partition.held_since > _SILENT_S:
            if partition.behind_stored:
                return (
                    f"a loss moved it back to source offset {partition.acked_position}, which is "
                    f"not stored yet {self._ago(now, partition.held_since)}"
                )
            return f"its logs are being validated {self._ago(now, partition.held_since)}"
        open_for = now - partition.undecided_since
        if partition.undecided and partition.lag == 0 and open_for > _HANGING_S:
            return (
                f"the source has an open transaction from offset {partition.high_watermark} on "
                f"{self._ago(now, partition.undecided_since)}, so later records cannot be read: "
                "abort it (see kafka-transactions.sh find-hanging) if its producer is gone"
            )
        since = partition.progress[1]
        if node is not None and not (partition.in_flight or partition.queue):
            since = max(since, node.arriving_at)
        idle_s = _IDLE_S if self._commits is None else _IDLE_S + self._commits.length_s
        if self._copied(partition)[1] or now - since < idle_s:
            return None
        aborted = None if self._commits is None else self._commits.aborted_because
        if aborted is not None:
            return (
                f"nothing was copied {self._ago(now, since)}; the last transaction was aborted: "
                f"{aborted}"
            )
        what = "its position is not known" if partition.lag is None else "records wait"
        sent = partition.in_flight or partition.queue
        doing = "being sent" if sent else "to be fetched"
        said = f"nothing was copied {self._ago(now, since)}, though {what} {doing}"
        slow = targets.get(partition.target_node) if sent else node
        if slow is None or now - slow.throttled_at > _QUOTA_S:
            return said
        return f"{said}; {slow.role} {slow.node_id} throttles this flow by a quota"

    def _ago(self, now: float, since: float) -> str:
        """Format a moment as `since ...`. The text stays the same over time, so it is logged only
        once."""
        seconds = self._loop.now_ms() / 1000 - (now - since)
        return f"since {datetime.fromtimestamp(round(seconds), UTC):%Y-%m-%dT%H:%M:%SZ}"

    # The log ends of partitions that are not fetched.

    def _probe(self, unfetched: Mapping[TopicPartition, PartitionCopy]) -> None:
        known = {key: p for key, p in unfetched.items() if key in self._link.snapshot.leaders}
        if not known:
            return
        for kind in (EARLIEST, LATEST):
            self._asked += 1
            future = self._link.list_offsets(known, kind, self._isolation, _ASK_TIMEOUT_S)
            self._context.when_answered(future, partial(self._answered, kind, known), self._failed)

    def _failed(self, _: ConnectError) -> None:
        self._asked -= 1  # The partitions' errors explain already why they make no progress.

    def _answered(
        self,
        kind: int,
        asked: Mapping[TopicPartition, PartitionCopy],
        found: Mapping[TopicPartition, OffsetResult],
    ) -> None:
        self._asked -= 1
        now_ms = self._loop.now_ms()
        for key, partition in asked.items():
            offset = found.get(key)
            if not isinstance(offset, int) or not self._is_unfetched(partition):
                continue
            if kind == EARLIEST:
                partition.log_start_offset = max(offset, partition.log_start_offset)
            else:
                partition.high_watermark = offset
            partition.metrics.set_lag(partition.lag, partition.lag_ms(now_ms))
