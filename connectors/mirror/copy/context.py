"""The shared state of the parts of a copy engine, and the way they report.

Data goes down: each part gets the `CopyContext` and the parts that it uses. Events come up: a part
that changes a partition marks it in `changed`, and posts an event if another part must act. No part
calls one above it. After each callback of the loop, the engine handles what was posted
(`dispatcher.py`), so nothing re-enters. Belongs to the copy engine's thread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from connect.clients.cluster.cluster_access import OpenCluster
from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.wire.selector_loop import SelectorLoop
from connect.clock import SYSTEM_CLOCK, Clock
from connect.errors import ConnectError
from connect.metrics.sensors import WindowedStat
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import Loss
from connectors.mirror.copy.memory import MemoryBudget, SharedMemory
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.partition.states import InvariantBroken
from connectors.mirror.copy.partition.target_partition import TargetPartition
from connectors.mirror.copy.quarantine import Quarantine, QuarantinedRecords
from connectors.mirror.copy.settings import EngineSettings
from connectors.mirror.offsets.offset_map_pages import OffsetRun

__all__ = [
    "CopyContext",
    "CopyListener",
    "EarlyAppendExplained",
    "EngineEnvironment",
    "Event",
    "Left",
    "Located",
    "LossFound",
    "MetadataChanged",
    "OnAcked",
    "Overdue",
    "RefusedByTransaction",
    "ReplicaChanged",
    "Settled",
    "TailCompared",
]

_LOG = logging.getLogger(__name__)

T = TypeVar("T")


class Located(NamedTuple):
    """A partition got a position: its first one, or another one after a loss."""

    partition: PartitionCopy


class LossFound(NamedTuple):
    """One of a partition's logs lost records."""

    partition: PartitionCopy
    loss: Loss


class TailCompared(NamedTuple):
    """The target's log end was compared with the source after a crash."""

    partition: PartitionCopy


class EarlyAppendExplained(NamedTuple):
    """The cause of an early append is reported, so the batch can be acknowledged."""

    partition: PartitionCopy


class ReplicaChanged(NamedTuple):
    """A partition is to be fetched from another replica."""

    partition: PartitionCopy


class Left(NamedTuple):
    """A leaving partition has nothing in flight any more."""

    partition: PartitionCopy


class RefusedByTransaction(NamedTuple):
    """The transaction coordinator rejected a partition with this error code."""

    partition: PartitionCopy
    code: int


class Overdue(NamedTuple):
    """A broker does not answer a partition's batches; its connection must be closed."""

    partition: TargetPartition


class MetadataChanged(NamedTuple):
    """One of the clusters returned new metadata."""


Event = (
    Located
    | LossFound
    | TailCompared
    | EarlyAppendExplained
    | ReplicaChanged
    | Left
    | RefusedByTransaction
    | Overdue
    | MetadataChanged
)


class Settled(NamedTuple):
    """An acknowledged batch; under exactly-once, one whose transaction is committed."""

    partition: PartitionCopy
    runs: Sequence[OffsetRun]
    base_offset: int
    records: int
    max_timestamp: int
    shallow: bool


OnAcked = Callable[[PartitionCopy, Sequence[OffsetRun], int], None]
"""(partition, source offset runs, target offset of the first record)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyListener:
    """Receives the events of an engine for its owner, on the engine's thread. Only `begun` may call
    the engine, and only `let_copy`.

    `acked`: ranges that are on the target, in source order per partition; under exactly-once only
    committed ones. `lost`: a loss, before anything is copied after it. `quarantined`: records that
    are in the quarantine. `found`: a partition's records from this source offset on, as many as
    given, that a crash had left on the target. `committed`: a transaction was committed that stored
    the source offsets of these partitions, and all its ranges were passed to `acked`. `begun`: the
    start position of a partition that had none (`begin`); the partition is not fetched before
    `let_copy`.
    """

    acked: OnAcked
    lost: Callable[[PartitionCopy, Loss], None] = lambda *_: None
    quarantined: Callable[[PartitionCopy, QuarantinedRecords], None] = lambda *_: None
    found: Callable[[PartitionCopy, int, int], None] = lambda *_: None
    committed: Callable[[Sequence[PartitionCopy]], None] = lambda _: None
    begun: Callable[[PartitionCopy], None] | None = None


@dataclass(frozen=True, slots=True)
class EngineEnvironment:
    """Clock, clusters and event loop of an engine, which simulations replace. The engine closes the
    clusters and the loop. `loop` None: a new one. `memory`: shared with other engines; None: not
    shared."""

    clock: Clock = SYSTEM_CLOCK
    open_cluster: OpenCluster = ClusterLink
    loop: SelectorLoop | None = None
    memory: SharedMemory | None = None


class CopyContext:
    """The clusters, the loop, the memory and the partitions of one engine. `changed`: partitions
    whose fetching and sending must be updated. `touched`: partitions to which something happened
    since the last check (`watch_list.py`). `silent`: the target brokers that do not respond.
    `fetch_ms` and `produce_ms`: how long brokers took to answer."""

    def __init__(
        self,
        settings: EngineSettings,
        listener: CopyListener,
        environment: EngineEnvironment,
        quarantine: Quarantine | None = None,
    ) -> None:
        clock = environment.clock
        self.settings = settings
        self.listener = listener
        self.quarantine = quarantine
        self.clock = clock
        self.loop = environment.loop or SelectorLoop(clock)
        self.budget = MemoryBudget(
            settings.buffer_bytes, settings.far_buffer_bytes, environment.memory
        )
        self.partitions: dict[TopicPartition, PartitionCopy] = {}
        self.fetching = True
        self.source_by_id: bool | None = None
        """Whether the source's brokers are asked for topic IDs; None: not known yet."""
        self.silent: set[int] = set()
        self.fetch_ms, self.produce_ms = WindowedStat(), WindowedStat()
        self.changed: dict[TargetPartition, None] = {}
        self.touched: dict[TargetPartition, None] = {}
        self.events: deque[Event] = deque()
        self._metadata_posted = False
        # The links' threads call `metadata_changed` as soon as a cluster responds.
        open_cluster, changed = environment.open_cluster, self.metadata_changed
        self.source = open_cluster(settings.source, changed, clock, "mirror-source")
        self.target = open_cluster(settings.target, changed, clock, "mirror-target")

    def mark(self, partition: TargetPartition) -> None:
        """Update the partition's fetching and sending after the current callback, because its state
        or position changed."""
        self.changed[partition] = None

    def post(self, event: Event) -> None:
        """Have an event handled after the current callback."""
        self.events.append(event)

    def when_done(self, future: Future[T], action: Callable[[Future[T]], None]) -> None:
        """Call `action` on the loop's thread once the future is done."""
        future.add_done_callback(lambda done: self.loop.post(lambda: action(done)))

    def when_answered(
        self,
        future: Future[T],
        answered: Callable[[T], None],
        failed: Callable[[ConnectError], None],
    ) -> None:
        """Call one of these on the loop's thread once a request is answered; neither if it was
        cancelled."""

        def take(done: Future[T]) -> None:
            try:
                answer = done.result(timeout=0)
            except CancelledError:
                return
            except ConnectError as error:
                failed(error)
            else:
                answered(answer)

        self.when_done(future, take)

    def metadata_changed(self) -> None:
        """Have new metadata applied. From any thread."""
        if not self._metadata_posted:
            self._metadata_posted = True
            self.loop.post(self._post_metadata)

    def _post_metadata(self) -> None:
        self._metadata_posted = False
        self.post(MetadataChanged())

    def waits_for_silent(self, partition: TargetPartition) -> bool:
        """Whether the batches in flight went to a broker that has fallen silent."""
        return bool(partition.in_flight) and partition.sent_node in self.silent

    def stop_broken(self, partition: TargetPartition, error: InvariantBroken) -> None:
        """Fail closed: stop copying and storing this partition."""
        _LOG.error("%s", error)
        partition.stop_broken(str(error))
        self.mark(partition)

    def settle(self, settled: Settled) -> None:
        """Record that a batch is on the target permanently."""
        metrics = settled.partition.metrics
        metrics.acked(settled.records, settled.max_timestamp, self.loop.now_ms())
        if settled.shallow:
            metrics.shallow(settled.records, 1)
        else:
            metrics.record_level(settled.records, 1)
        self.listener.acked(settled.partition, settled.runs, settled.base_offset)

    def close(self) -> None:
        """Close both clusters and the loop, and leave the memory to other engines."""
        self.source.close()
        self.target.close()
        self.loop.close()
        self.budget.close()
