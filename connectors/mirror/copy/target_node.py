"""A broker that is written to: idempotent Produce requests, up to five in flight, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from connect.clients.channel import Response
from connect.clients.cluster_link import ClusterLink
from connect.clients.selector_loop import SelectorLoop
from connect.clients.settings import ProduceSettings, WireSettings
from connect.errors import ConnectError, CorruptData
from connect.protocol.batches import stamp_for_produce
from connect.protocol.messages import (
    PRODUCE_API,
    PRODUCE_VERSION,
    ProducedPartition,
    TopicPartition,
    encode_produce,
    parse_produce,
)
from connectors.mirror.copy.memory import MemoryBudget
from connectors.mirror.copy.node import BrokerNode
from connectors.mirror.copy.partition import CopyState, Outgoing, PartitionCopy

__all__ = ["TargetNode"]

Sent = Sequence[tuple[PartitionCopy, Outgoing]]
OnResult = Callable[[PartitionCopy, Outgoing, "ProducedPartition | ConnectError"], None]

REQUEST_SHARE = 32
"""A request carries at most this fraction of the task's memory, so that five in flight to a broker
that stopped answering leave most of it to the others."""


class TargetNode(BrokerNode):
    """See the module. `on_result` hears once about every batch that was sent."""

    role = "target broker"

    def __init__(
        self,
        node_id: int,
        link: ClusterLink,
        settings: WireSettings,
        loop: SelectorLoop,
        budget: MemoryBudget,
        produce: ProduceSettings,
        on_result: OnResult,
    ) -> None:
        super().__init__(node_id, link, settings, loop, budget.pool)
        self._produce = produce
        self._on_result = on_result
        self._ready: deque[PartitionCopy] = deque()
        self._sent: deque[Sent] = deque()
        self._request_bytes = max(produce.max_request_size, budget.limit // REQUEST_SHARE)

    def needed(self) -> bool:
        return bool(self._ready)

    def offer(self, partition: PartitionCopy) -> None:
        """This partition has a batch to send; `pump` sends it."""
        if not partition.is_ready:
            partition.is_ready = True
            self._ready.append(partition)

    def pump(self) -> None:
        while self._ready and self.sendable:
            channel = self.channel
            if channel is None or channel.in_flight >= self._produce.max_in_flight:
                return
            if not self._send_one():
                return

    def _send_one(self) -> bool:
        batches: dict[TopicPartition, memoryview | bytearray] = {}
        sent: list[tuple[PartitionCopy, Outgoing]] = []
        size = 0
        again: list[PartitionCopy] = []
        while self._ready:
            partition = self._ready[0]
            if not self._may_send(partition):
                self._ready.popleft().is_ready = False
                continue
            batch = partition.queue[0]
            if sent and size + len(batch.data) > self._request_bytes:
                break
            self._ready.popleft()
            partition.queue.popleft()
            self._stamp(partition, batch)
            batches[partition.target] = batch.data
            sent.append((partition, batch))
            size += len(batch.data)
            if partition.queue:
                again.append(partition)
            else:
                partition.is_ready = False
        self._ready.extend(again)
        if sent:
            self._transmit(batches, sent)
        return bool(sent)

    def _may_send(self, partition: PartitionCopy) -> bool:
        return (
            bool(partition.queue)
            and partition.target_node == self.node_id
            and partition.state is CopyState.ACTIVE
            and partition.producer_id >= 0
        )

    @staticmethod
    def _stamp(partition: PartitionCopy, batch: Outgoing) -> None:
        partition.assign_sequence(batch)
        stamp_for_produce(
            batch.data, partition.producer_id, partition.producer_epoch, batch.sequence
        )
        batch.answered = False
        batch.failure = None
        partition.in_flight.append(batch)
        partition.unanswered += 1

    def _transmit(
        self,
        batches: dict[TopicPartition, memoryview | bytearray],
        sent: list[tuple[PartitionCopy, Outgoing]],
    ) -> None:
        channel = self.channel
        assert channel is not None
        timeout_ms = self._produce.request_timeout_ms
        body, size = encode_produce(batches, timeout_ms)
        self._sent.append(sent)
        # The broker may use the whole timeout for replication before it answers.
        deadline = self._loop.now() + 2 * timeout_ms / 1000
        try:
            channel.send(PRODUCE_API, PRODUCE_VERSION, body, size, deadline, self._answered)
            self._loop.update(channel)
        except ConnectError as error:
            self.lose(error)

    def _answered(self, response: Response) -> None:
        results, throttle_ms = parse_produce(response.body)
        self._pool.release(response.buffer)
        self.throttle(throttle_ms)
        sent = self._sent.popleft()
        by_partition = {(result.topic, result.partition): result for result in results}
        for partition, batch in sent:
            result = by_partition.get(partition.target)
            self._on_result(
                partition,
                batch,
                result
                or CorruptData(f"{self.role} {self.node_id} left {partition.target} unanswered"),
            )
        self.pump()

    def on_lost(self, error: ConnectError) -> None:
        waiting, self._sent = self._sent, deque()
        for sent in waiting:
            for partition, batch in sent:
                self._on_result(partition, batch, error)
        # Those not sent yet are retried when the connection is back; `needed` keeps it coming.
        for partition in self._ready:
            partition.target_error = partition.target_error or str(error)
