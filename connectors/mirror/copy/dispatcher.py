"""Builds the parts of a copy engine, passes them the brokers' responses, and handles their events.

This is the only place where one part's event reaches another. A part changes the state of
partitions and posts; `drain` then handles the events, updates fetching and sending of the changed
partitions, and so on until nothing is left. It runs after each callback of the loop, and between
the results of a response and the next request to that broker. Belongs to the copy engine's thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from connect.errors import ConnectError
from connect.protocol.messages import FetchResponse
from connectors.mirror.copy.brokers.routing import BrokerRouting
from connectors.mirror.copy.brokers.source import SourceNode
from connectors.mirror.copy.brokers.target import ProduceResult, TargetNode
from connectors.mirror.copy.context import (
    CopyContext,
    EarlyAppendExplained,
    Event,
    Left,
    Located,
    LossFound,
    MetadataChanged,
    Overdue,
    RefusedByTransaction,
    ReplicaChanged,
    TailCompared,
)
from connectors.mirror.copy.fetch_handler import FetchResponseHandler
from connectors.mirror.copy.memory import FetchBuffer
from connectors.mirror.copy.partition.partition import CopyState, PartitionCopy
from connectors.mirror.copy.positions.log_validation import LogValidation
from connectors.mirror.copy.positions.offset_reset import OffsetReset
from connectors.mirror.copy.positions.tail_checks import TailChecks, TailLookup
from connectors.mirror.copy.produce_handler import ProduceResponseHandler
from connectors.mirror.copy.producer_ids import ProducerIds
from connectors.mirror.copy.settings import TransactionPlan
from connectors.mirror.copy.stall_detector import StallDetector
from connectors.mirror.copy.throttle import Throttle
from connectors.mirror.copy.topic_looks import TopicLooks
from connectors.mirror.copy.transactions.manager import TransactionManager
from connectors.mirror.copy.watch_list import WatchList

__all__ = ["Dispatcher"]

_HOUSEKEEPING_S = 1.0


class Dispatcher:
    """The parts of one engine. `departed`: partitions that left, until the engine's owner takes
    them."""

    def __init__(
        self, context: CopyContext, transactions: TransactionPlan | None, tails: TailLookup | None
    ) -> None:
        self._context = context
        self.transactions = None
        if transactions is not None:
            self.transactions = TransactionManager(context, transactions)
        self.producers = ProducerIds(context, self.transactions)
        self.throttle = Throttle(context)
        self.starts = OffsetReset(context, self._abandon)
        self.tails = None if tails is None else TailChecks(context, tails)
        self._validation = LogValidation(context, self.starts, self.tails)
        self._fetches = FetchResponseHandler(context, self._validation, self.throttle)
        self._produces = ProduceResponseHandler(context, self.producers, self.transactions)
        self._stalls = StallDetector(context, self.throttle, self.transactions)
        self.watched = WatchList(context, self.transactions)
        self.routing = BrokerRouting(context, self, self.throttle, self.transactions)
        self.departed: list[PartitionCopy] = []
        self._draining = False
        self._topic_looks = TopicLooks(context.loop.now())
        context.loop.after_each(self.drain)
        context.loop.after(_HOUSEKEEPING_S, self._housekeeping)

    # Responses of the brokers.

    def on_fetched(self, node: SourceNode, response: FetchResponse, buffer: FetchBuffer) -> None:
        """Handle a fetch response. The next fetch is sent before its batches are converted."""
        fresh = self._fetches.note(node, response)
        self.drain()
        node.pump()
        for partition in self._fetches.convert(fresh, buffer):
            self.routing.offer(partition)
        self.drain()
        self.routing.pump_targets()

    def on_source_lost(self, node: SourceNode, error: ConnectError) -> None:
        self._fetches.source_lost(node, error)

    def on_results(self, results: Sequence[ProduceResult]) -> None:
        self._produces.apply(results)
        self.drain()

    def on_flow(self, node: TargetNode) -> None:
        self.routing.on_flow(node)
        self.drain()

    # Events of the parts.

    def drain(self) -> None:
        """Handle everything that was posted, and update all changed partitions. Sends nothing."""
        context = self._context
        if self._draining:
            return  # An event closed a connection. The caller handles what that has posted.
        self._draining = True
        try:
            while context.events or context.changed:
                while context.events:
                    self._handle(context.events.popleft())
                changed, context.changed = context.changed, {}
                context.touched.update(changed)
                for partition in changed:
                    self.routing.refresh_interest(partition)
        finally:
            self._draining = False

    def _handle(self, event: Event) -> None:
        match event:
            case MetadataChanged():
                self._apply_metadata()
            case Located(partition):
                self._located(partition)
            case LossFound(partition, loss):
                if self.transactions is None:
                    self._context.listener.lost(partition, loss)
                else:
                    self.transactions.report(event)
            case TailCompared(partition):
                if self.transactions is not None:
                    self.transactions.relocated(partition)
                self._context.mark(partition)
            case EarlyAppendExplained(partition):
                self._produces.advance(partition)
            case ReplicaChanged(partition):
                self.routing.place(partition)
            case RefusedByTransaction(partition, code):
                self._produces.refuse(partition, code)
            case Overdue(written):
                self.routing.cut_off(written)
            case Left(partition):
                self._left(partition)

    def _apply_metadata(self) -> None:
        context = self._context
        counts = context.source.snapshot.partition_counts
        self.throttle.follow(context.partitions.values(), counts)
        for partition in tuple(context.partitions.values()):
            self.follow(partition)
        self.routing.place_offsets()
        self.starts.ask()
        self.routing.drop_removed()

    def follow(self, partition: PartitionCopy) -> None:
        """Compare both logs with the clusters' metadata, and follow the partition's leaders."""
        self._validation.follow(partition)
        self.routing.place(partition)

    def _located(self, partition: PartitionCopy) -> None:
        begins = partition.state is CopyState.STARTING
        partition.started()
        partition.source_retry_at = 0.0
        self.producers.equip(partition)
        if self.transactions is not None:
            self.transactions.relocated(partition)
        self._validation.follow(partition)
        begun = self._context.listener.begun
        if begins and partition.is_new and begun is not None:
            partition.start_unsaved = True
            begun(partition)
        self._context.mark(partition)

    def _left(self, partition: PartitionCopy) -> None:
        if self._context.partitions.get(partition.source) is not partition:
            return
        self.routing.leave(partition)
        self._abort_if_unsure(partition, "was unassigned")
        self.producers.retire(partition)
        partition.drop_all()
        del self._context.partitions[partition.source]
        self.departed.append(partition)

    def _abort_if_unsure(self, partition: PartitionCopy, what: str) -> None:
        """Abort the open transaction before a partition drops batches that the target may have,
        because their source offset would not be stored with them."""
        if self.transactions is not None and partition.outcome_unknown:
            self.transactions.abort_for(
                partition, f"the partition {what} before all its batches were answered"
            )

    def _abandon(self, partition: PartitionCopy) -> None:
        """Drop what a partition has in flight whose target lost records."""
        self._abort_if_unsure(partition, "stopped")
        partition.abandon()

    # Housekeeping.

    def _housekeeping(self) -> None:
        """Called every second: check request timeouts and partitions without a leader."""
        context = self._context
        now = context.loop.now()
        for node in self.routing.nodes:
            # What came since then may wait unread, because this thread converted records.
            node.check_deadline(context.loop.polled_at)
        for source in self.routing.sources.values():
            source.look_for_bytes()
        watched = self.watched.take(self._stalls.silent(self.routing.sources))
        for partition in watched:
            partition.drop_anchor()
            partition.forecast_loss(now)
            if partition.standing and partition.halted and not partition.unanswered:
                self._abandon(partition)
        self.throttle.look(watched)
        self._stalls.look(watched, self.routing.sources, self.routing.targets)
        self.routing.ask_for_leaders(watched)
        self.watched.settle()
        if self._topic_looks.due(now, len(context.partitions)):
            self._look_at_topics()
        context.loop.after(_HOUSEKEEPING_S, self._housekeeping)

    def _look_at_topics(self) -> None:
        """Request the IDs of the topics on both sides."""
        partitions = self._context.partitions.values()
        self._context.source.request_refresh({p.source[0] for p in partitions})
        self._context.target.request_refresh({p.target[0] for p in partitions})

    def close(self) -> None:
        """Close every connection."""
        if self.transactions is not None:
            self.transactions.close()
        for node in self.routing.nodes:
            node.close()
