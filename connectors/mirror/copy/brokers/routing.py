"""Routes each partition to its source and target brokers, and tracks whether they are reachable.

`BrokerRouting` owns the broker nodes, follows the leaders on both clusters, and updates fetch
sessions and send queues to match the states of partitions. `refresh_interest` only updates these
lists; batches are sent later. Belongs to the copy engine's thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

from connect.clients.cluster.broker_node import BrokerNode
from connect.errors import BrokerUnavailable
from connect.protocol.error_codes import ErrorCode, code_facts
from connectors.mirror.copy.brokers.source import FetchResponses
from connectors.mirror.copy.brokers.source_nodes import SourceNodes
from connectors.mirror.copy.brokers.target import ProduceResponses, TargetNode
from connectors.mirror.copy.context import CopyContext
from connectors.mirror.copy.partition.partition import UNKNOWN, CopyState, PartitionCopy
from connectors.mirror.copy.partition.target_partition import TargetPartition
from connectors.mirror.copy.throttle import Throttle
from connectors.mirror.copy.transactions.manager import TransactionManager

__all__ = ["BrokerResponses", "BrokerRouting"]


class BrokerResponses(FetchResponses, ProduceResponses, Protocol):
    """The receiver of the responses of all brokers."""


class BrokerRouting:
    """Assigns partitions to broker nodes as leaders and partition states change."""

    def __init__(
        self,
        context: CopyContext,
        responses: BrokerResponses,
        throttle: Throttle,
        transactions: TransactionManager | None,
    ) -> None:
        self._context = context
        self._responses = responses
        self._transactions = transactions
        self._source = context.source
        self._target = context.target
        self._loop = context.loop
        self._partitions = context.partitions
        self._partition_bytes = context.settings.fetch.max_partition_fetch_bytes
        self._source_nodes = SourceNodes(context, throttle, responses)
        self.sources = self._source_nodes.by_key
        self.targets: dict[int, TargetNode] = {}
        self._to_pump: dict[TargetNode, None] = {}

    @property
    def nodes(self) -> list[BrokerNode]:
        return [*self.sources.values(), *self.targets.values()]

    # Leaders.

    def _written(self, partitions: Collection[PartitionCopy]) -> Iterator[TargetPartition]:
        """Return these partitions and, under exactly-once, the partitions of the offsets topic that
        the transactions write to."""
        yield from partitions
        if self._transactions is not None:
            yield from self._transactions.offsets_partitions

    def drop_removed(self) -> None:
        """Close connections to brokers that left their clusters."""
        for node in self.nodes:
            if node.channel is not None and not node.listed:
                node.lose(BrokerUnavailable("the broker is no longer part of its cluster"))

    def ask_for_leaders(self, partitions: Collection[PartitionCopy]) -> None:
        """Called every second: request metadata for those of these partitions, and of the offsets
        topic's, that have no leader."""
        sources = {p.source[0] for p in partitions if p.source_node == UNKNOWN}
        written = self._written(partitions)
        targets = {p.target[0] for p in written if p.target_node == UNKNOWN}
        if sources:
            self._source.request_refresh(sources)
        if targets:
            self._target.request_refresh(targets)

    def place(self, partition: PartitionCopy) -> None:
        """Follow the partition's leaders on both sides."""
        source = self._source.snapshot
        leader, epoch = source.leaders.get(partition.source, (UNKNOWN, UNKNOWN))
        if epoch != partition.source_epoch or self._loop.now() >= partition.preferred_until:
            partition.preferred_replica = UNKNOWN
        if partition.preferred_replica in source.nodes:
            leader = partition.preferred_replica
        if leader not in source.nodes:
            leader = UNKNOWN
        if leader != partition.source_node:
            self._source_nodes.leave(partition)
            partition.source_node = leader
        partition.source_epoch = epoch
        self._place_on_target(partition)
        self._explain(partition)
        self._context.mark(partition)

    def place_offsets(self) -> None:
        """Follow the leaders of the offsets topic, whose partitions are only written."""
        if self._transactions is not None:
            for written in self._transactions.offsets_partitions:
                self._place_on_target(written)

    def _place_on_target(self, partition: TargetPartition) -> None:
        target = self._target.snapshot
        leader, epoch = target.leaders.get(partition.target, (UNKNOWN, UNKNOWN))
        if leader not in target.nodes:
            leader = UNKNOWN
        partition.target_epoch = epoch
        if leader == partition.target_node:
            return
        if partition.target_node != UNKNOWN:
            self._target_node(partition.target_node).withdraw(partition)
        partition.target_node = leader
        self._note_reachable(partition)
        if leader == UNKNOWN:
            partition.evacuate(self._context.budget)

    def _note_reachable(self, partition: TargetPartition) -> None:
        """Record whether the partition's leader on the target is reachable."""
        leader = self.targets.get(partition.target_node)
        waits_for = self.targets.get(partition.sent_node) if partition.in_flight else None
        stalled = next((n for n in (leader, waits_for) if n is not None and n.stalled), None)
        if stalled is None:
            partition.unreachable = None
        else:
            silent = f"{stalled.role} {stalled.node_id} does not respond"
            partition.unreachable = stalled.error or silent

    def on_flow(self, node: TargetNode) -> None:
        """Handle a target broker that fell silent or responds again."""
        if node.stalled:
            self._context.silent.add(node.node_id)
        else:
            self._context.silent.discard(node.node_id)
        for partition in self._written(self._partitions.values()):
            if node.node_id in (partition.target_node, partition.sent_node):
                self._note_reachable(partition)
                if node.stalled:
                    partition.evacuate(self._context.budget)
                self._context.mark(partition)

    def _explain(self, partition: PartitionCopy) -> None:
        """Set the reason why a partition has no leader, once the clusters have returned
        metadata."""
        partition.placement_error = None
        for node, key, link, side in (
            (partition.source_node, partition.source, self._source, "source"),
            (partition.target_node, partition.target, self._target, "target"),
        ):
            if node != UNKNOWN or link.snapshot.version == 0:
                continue
            code = link.snapshot.errors.get(key[0], link.snapshot.partition_errors.get(key))
            if code is None and key[0] not in link.snapshot.partition_counts:
                continue  # The cluster's metadata does not include this topic yet.
            why = code_facts(code).name if code else "it has no leader"
            if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                # Either implies Describe, which alone would only lead to the next refusal.
                needed = "Read" if side == "source" else "Write"
                why += f"; grant {needed} on topic {key[0]} at the {side}"
            if link.failure is not None:
                why += f"; no broker of the {side} answers now: {link.failure}"
            partition.placement_error = (
                f"the {side} partition {key[0]}-{key[1]} is not available: {why}"
            )
            return

    def _target_node(self, node_id: int) -> TargetNode:
        node = self.targets.get(node_id)
        if node is None:
            node = self.targets[node_id] = TargetNode(
                node_id, self._context, self._responses, self._transactions
            )
        return node

    # Which partitions are fetched and sent.

    def refresh_interest(self, partition: TargetPartition) -> None:
        """Update the source's fetch session and the target's send queue to match the partition's
        state. Sends nothing itself."""
        if isinstance(partition, PartitionCopy):
            if self._partitions.get(partition.source) is not partition:
                return  # This partition left; another one may have its key now.
            self._refresh_fetches(partition)
        else:
            self._place_on_target(partition)
        if partition.queue:
            self.offer(partition)

    def _refresh_fetches(self, partition: PartitionCopy) -> None:
        if partition.source_node == UNKNOWN:
            return
        target = self.targets.get(partition.target_node)
        wanted = (
            partition.state is CopyState.ACTIVE
            and not partition.leaving
            and partition.position != UNKNOWN
            and not partition.fetched_all
            and not partition.held_back
            and not partition.paced
            and partition.target_node != UNKNOWN
            and not (target is not None and target.stalled)
            and not self._context.waits_for_silent(partition)
            and not (partition.failing and partition.queue)
            and partition.source_retry_at <= self._loop.now()
        )
        held = wanted and partition.has_enough_pending(self._partition_bytes)
        self._source_nodes.show(partition, fetch=wanted and not held, held=held)

    def cut_off(self, partition: TargetPartition) -> None:
        """Close the connection on which the partition's responses are overdue."""
        node = self.targets.get(partition.sent_node)
        if node is not None and node.channel is not None:
            node.lose(BrokerUnavailable("the broker did not respond in time"))

    def offer(self, partition: TargetPartition) -> None:
        """Queue a partition that has batches to send. They are sent after the current event."""
        if partition.target_node == UNKNOWN:
            return
        node = self._target_node(partition.target_node)
        node.offer(partition)
        if not self._to_pump:
            self._loop.soon(self.pump_targets)
        self._to_pump[node] = None

    def pump_sources(self) -> None:
        """Send the next fetches."""
        self._source_nodes.pump()

    def pump_targets(self) -> None:
        """Send the queued batches. Call only between events or at the end of one."""
        nodes, self._to_pump = self._to_pump, {}
        for node in nodes:
            node.pump()

    def leave(self, partition: PartitionCopy) -> None:
        """Stop fetching and sending the partition."""
        self._source_nodes.leave(partition)
        if partition.target_node != UNKNOWN:
            self._target_node(partition.target_node).withdraw(partition)
