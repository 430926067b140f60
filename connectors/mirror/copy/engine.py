"""The batch copier: partitions of one cluster forwarded to another, on one thread.

`CopyEngine` owns the loop, the partitions and the broker nodes. Its owner calls `step` again and
again from one thread; only `wake` and `health` may be called from others. Acknowledged ranges are
told to `on_acked`, in source order for each partition.

    fetch response -> read headers -> next fetch sent -> choose ways -> queues -> produce requests
    produce response -> acknowledged in order -> on_acked; or a recovery (deliveries.py)

One partition's trouble stays its own: it leaves the fetches until it can move again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from connect.clients.cluster_link import ClusterLink
from connect.clients.errors import code_facts
from connect.clients.selector_loop import SelectorLoop
from connect.clients.settings import FetchSettings, ProduceSettings, WireSettings
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.plugin import PartitionHealth
from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.arrivals import Arrivals
from connectors.mirror.copy.chooser import CopyOptions
from connectors.mirror.copy.deliveries import Deliveries, OnAcked
from connectors.mirror.copy.memory import MemoryBudget
from connectors.mirror.copy.node import BrokerNode
from connectors.mirror.copy.partition import UNKNOWN, CopyState, PartitionCopy
from connectors.mirror.copy.source_node import SourceNode
from connectors.mirror.copy.start_positions import StartPositions
from connectors.mirror.copy.target_node import TargetNode
from connectors.mirror.metrics import PartitionMetrics

__all__ = ["CopyEngine", "EngineSettings", "OnAcked"]

_LOG = logging.getLogger(__name__)

_HOUSEKEEPING_S = 1.0


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Everything the flow says about copying. `buffer_bytes` bounds fetched, not yet acknowledged
    bytes."""

    source: WireSettings
    target: WireSettings
    fetch: FetchSettings = field(default_factory=FetchSettings)
    produce: ProduceSettings = field(default_factory=ProduceSettings)
    options: CopyOptions = field(default_factory=CopyOptions)
    buffer_bytes: int = 64 * 1024 * 1024


class CopyEngine:
    """See the module."""

    def __init__(
        self, settings: EngineSettings, on_acked: OnAcked, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._loop = SelectorLoop(clock)
        self._budget = MemoryBudget(settings.buffer_bytes)
        self._partitions: dict[TopicPartition, PartitionCopy] = {}
        self._departed: list[PartitionCopy] = []
        self._source_nodes: dict[int, SourceNode] = {}
        self._target_nodes: dict[int, TargetNode] = {}
        # Before the links: their threads call `_on_metadata` as soon as a cluster answers.
        self._metadata_posted = False
        self._fetching = True
        self._source = ClusterLink(settings.source, self._on_metadata, clock, "mirror-source")
        self._target = ClusterLink(settings.target, self._on_metadata, clock, "mirror-target")
        self._starts = StartPositions(self._source, self._loop, settings.fetch, self._on_located)
        self._deliveries = Deliveries(
            self._target,
            self._loop,
            settings.target,
            self._budget,
            on_acked,
            self.refresh_interest,
            self._on_left,
        )
        # Each partition may hold this much before it is left out of fetches.
        self._partition_bytes = settings.fetch.max_partition_fetch_bytes
        self._arrivals = Arrivals(
            self._partitions,
            self._source,
            self._loop,
            self._budget,
            settings.options,
            self._starts,
            self,
            self._partition_bytes,
        )
        self._loop.after(_HOUSEKEEPING_S, self._housekeeping)

    # What the owner calls.

    @property
    def partitions(self) -> Iterable[PartitionCopy]:
        """Those assigned, in no order."""
        return self._partitions.values()

    @property
    def memory_used(self) -> int:
        """Bytes that count against `buffer_bytes` now."""
        return self._budget.used

    def take_departed(self) -> list[PartitionCopy]:
        """Partitions that left since the last call: their acked position is final."""
        departed, self._departed = self._departed, []
        return departed

    def add(
        self,
        source: TopicPartition,
        target: TopicPartition,
        position: int | None,
        metrics: PartitionMetrics,
    ) -> None:
        """Begin to copy a partition. `position`: the first source offset to copy; None: where
        auto.offset.reset says."""
        partition = PartitionCopy(source=source, target=target, metrics=metrics)
        self._partitions[source] = partition
        self._deliveries.equip(partition)
        if position is None:
            self._starts.locate(partition)
        else:
            partition.position = partition.acked_position = position
            partition.stored_position = position
            partition.state = CopyState.ACTIVE

    def watch(self) -> None:
        """Ask both clusters about the partitions' topics. Call after `add`s and `remove`s."""
        self._source.watch_topics({p.source[0] for p in self._partitions.values()})
        self._target.watch_topics({p.target[0] for p in self._partitions.values()})
        self._on_metadata()

    def remove(self, source: TopicPartition) -> None:
        """Stop copying a partition: once what was sent is answered, `take_departed` has it."""
        partition = self._partitions.get(source)
        if partition is None or partition.leaving:
            return
        partition.leaving = True
        while partition.queue and partition.queue[-1].sequence == UNKNOWN:
            partition.forget(partition.queue.pop())
        self.refresh_interest(partition)
        if not partition.in_flight:
            self._on_left(partition)

    def step(self, timeout: float) -> None:
        """One turn of the loop; waits at most `timeout` seconds."""
        self._loop.turn(timeout)
        for node in self._source_nodes.values():
            node.pump()

    def wake(self) -> None:
        """Make a waiting `step` return. From any thread."""
        self._loop.wake()

    def set_fetching(self, on: bool) -> None:
        """Stop or go on fetching; what is under way goes on."""
        self._fetching = on
        self._arrivals.ignoring = not on
        for node in self._source_nodes.values():
            node.paused = not on
            node.pump()

    def drain(self, deadline: Deadline) -> bool:
        """Stop fetching and finish what is under way; False if the deadline came first."""
        self.set_fetching(False)
        while any(p.in_flight or p.queue for p in self._partitions.values()):
            if deadline.expired():
                return False
            self.step(min(0.1, deadline.remaining()))
        return True

    def health(self) -> list[PartitionHealth]:
        """How each partition does. From any thread."""
        now_ms = self._clock.now_ms()
        return [partition.health(now_ms) for partition in tuple(self._partitions.values())]

    def close(self) -> None:
        """Close every connection and thread."""
        self._starts.close()
        self._deliveries.close()
        nodes: list[BrokerNode] = [*self._source_nodes.values(), *self._target_nodes.values()]
        for node in nodes:
            node.close()
        self._source.close()
        self._target.close()
        self._loop.close()

    # Leaders.

    def _on_metadata(self) -> None:
        """Called on the links' threads."""
        if not self._metadata_posted:
            self._metadata_posted = True
            self._loop.post(self._apply_metadata)

    def _apply_metadata(self) -> None:
        self._metadata_posted = False
        for partition in self._partitions.values():
            self.place(partition)

    def place(self, partition: PartitionCopy) -> None:
        """Follow the partition's leaders on both sides."""
        source, target = self._source.snapshot, self._target.snapshot
        leader, epoch = source.leaders.get(partition.source, (UNKNOWN, UNKNOWN))
        if epoch != partition.source_epoch:
            partition.preferred_replica = UNKNOWN
        if partition.preferred_replica in source.nodes:
            leader = partition.preferred_replica
        if leader not in source.nodes:
            leader = UNKNOWN
        if leader != partition.source_node:
            self._leave_source(partition)
            partition.source_node = leader
        partition.source_epoch = epoch
        target_leader = target.leaders.get(partition.target, (UNKNOWN, UNKNOWN))[0]
        partition.target_node = target_leader if target_leader in target.nodes else UNKNOWN
        self._explain(partition)
        self.refresh_interest(partition)

    def _explain(self, partition: PartitionCopy) -> None:
        """Say why a partition has no leader, once the clusters answered."""
        partition.placement_error = None
        for node, key, link, side in (
            (partition.source_node, partition.source, self._source, "source"),
            (partition.target_node, partition.target, self._target, "target"),
        ):
            if node != UNKNOWN or link.snapshot.version == 0:
                continue
            code = link.snapshot.errors.get(key[0], link.snapshot.partition_errors.get(key))
            why = code_facts(code).name if code else "it has no leader"
            partition.placement_error = (
                f"the {side} partition {key[0]}-{key[1]} is not available: {why}"
            )
            return

    def _source_node(self, node_id: int) -> SourceNode:
        node = self._source_nodes.get(node_id)
        if node is None:
            node = SourceNode(
                node_id,
                self._source,
                self._settings.source,
                self._loop,
                self._budget,
                self._settings.fetch,
                self._arrivals.on_fetched,
                self._arrivals.on_source_lost,
            )
            node.paused = not self._fetching
            self._source_nodes[node_id] = node
        return node

    def _target_node(self, node_id: int) -> TargetNode:
        node = self._target_nodes.get(node_id)
        if node is None:
            node = TargetNode(
                node_id,
                self._target,
                self._settings.target,
                self._loop,
                self._budget,
                self._settings.produce,
                self._deliveries.on_result,
            )
            self._target_nodes[node_id] = node
        return node

    # Which partitions are fetched and sent.

    def refresh_interest(self, partition: PartitionCopy) -> None:
        """Bring the source's fetch session and the target's ready list in line with the state."""
        wanted = (
            partition.state is CopyState.ACTIVE
            and not partition.leaving
            and partition.position != UNKNOWN
            and partition.source_node != UNKNOWN
            and partition.target_node != UNKNOWN
            and partition.source_retry_at <= self._loop.now()
        )
        held = wanted and partition.pending_bytes >= self._partition_bytes
        if partition.source_node != UNKNOWN:
            self._show_source(partition, wanted and not held, held)
        if partition.queue and partition.target_node != UNKNOWN:
            node = self._target_node(partition.target_node)
            node.offer(partition)
            node.pump()

    def offer(self, partition: PartitionCopy) -> None:
        """It has batches to send: `pump_targets` sends them."""
        if partition.target_node != UNKNOWN:
            self._target_node(partition.target_node).offer(partition)

    def pump_targets(self) -> None:
        """Send what was offered."""
        for node in self._target_nodes.values():
            node.pump()

    def _show_source(self, partition: PartitionCopy, fetch: bool, held: bool) -> None:
        node = self._source_node(partition.source_node)
        if held != partition.held:
            partition.held = held
            node.held += 1 if held else -1
        if fetch:
            node.want(partition)
        else:
            node.drop(partition)

    def _leave_source(self, partition: PartitionCopy) -> None:
        if partition.source_node != UNKNOWN:
            self._show_source(partition, fetch=False, held=False)

    def _on_left(self, partition: PartitionCopy) -> None:
        if self._partitions.get(partition.source) is partition:
            self._leave_source(partition)
            del self._partitions[partition.source]
            self._departed.append(partition)

    def _on_located(self, partition: PartitionCopy) -> None:
        if partition.state is CopyState.STARTING:
            partition.state = CopyState.ACTIVE
        partition.source_retry_at = 0.0
        self.refresh_interest(partition)

    # Housekeeping.

    def _housekeeping(self) -> None:
        """Each second: lost requests, and partitions without a leader."""
        now = self._loop.now()
        nodes: list[BrokerNode] = [*self._source_nodes.values(), *self._target_nodes.values()]
        for node in nodes:
            node.check_deadline(now)
        homeless = [
            p
            for p in self._partitions.values()
            if p.source_node == UNKNOWN or p.target_node == UNKNOWN
        ]
        if any(p.source_node == UNKNOWN for p in homeless):
            self._source.request_refresh({p.source[0] for p in homeless})
        if any(p.target_node == UNKNOWN for p in homeless):
            self._target.request_refresh({p.target[0] for p in homeless})
        self._loop.after(_HOUSEKEEPING_S, self._housekeeping)
