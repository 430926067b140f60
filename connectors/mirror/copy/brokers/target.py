"""A target broker: idempotent Produce requests, up to five in flight, in order."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from connect.clients.cluster.broker_node import BrokerNode
from connect.clients.wire.channel import Response
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
from connectors.mirror.copy.batches.outgoing import Outgoing
from connectors.mirror.copy.context import CopyContext
from connectors.mirror.copy.partition.states import CopyState
from connectors.mirror.copy.partition.target_partition import MOST_IN_FLIGHT, TargetPartition
from connectors.mirror.copy.transactions.manager import TransactionManager

__all__ = ["ProduceResponses", "ProduceResult", "TargetNode"]


class ProduceResult(NamedTuple):
    """The response for one batch that was sent, or the error that closed its connection."""

    partition: TargetPartition
    batch: Outgoing
    answer: ProducedPartition | ConnectError


class Sent(NamedTuple):
    """The batches of one request, and when it was sent (monotonic seconds)."""

    at: float
    batches: Sequence[tuple[TargetPartition, Outgoing]]


STALLED_AFTER_S = 3.0
"""A broker that sent nothing for this long gets no more memory until it responds again."""

_MOST_GRACE_MS = 5_000
"""The broker may use the whole timeout for replication before it responds."""

REQUEST_SHARE = 32
"""A request carries at most this fraction of the task's memory, so that five requests to a stalled
broker leave most of it to the others."""


class ProduceResponses(Protocol):
    """The receiver of a node's responses. Neither method may send."""

    def on_results(self, results: Sequence[ProduceResult]) -> None:
        """Handle all batches of one response. Each sent batch comes exactly once."""

    def on_flow(self, node: TargetNode) -> None:
        """Handle a broker that stopped responding (`stalled`), or that responds again."""


class TargetNode(BrokerNode):
    """Sends the batches of one target broker's partitions."""

    role = "target broker"
    speaks = (PRODUCE_API, PRODUCE_VERSION, "Produce")

    def __init__(
        self,
        node_id: int,
        context: CopyContext,
        responses: ProduceResponses,
        transactions: TransactionManager | None = None,
    ) -> None:
        """`transactions` None: batches are not sent in transactions."""
        budget, settings = context.budget, context.settings
        super().__init__(node_id, context.target, settings.target, context.loop, budget.pool)
        self._produce = produce = settings.produce
        self._responses = responses
        self._transactions = transactions
        self.stalled = False
        self._gone = False
        self._progress_at = 0.0
        self._produce_ms = context.produce_ms
        self._ready: OrderedDict[TargetPartition, None] = OrderedDict()
        self._sent: deque[Sent] = deque()
        self._request_bytes = max(produce.max_request_size, budget.limit // REQUEST_SHARE)

    def needed(self) -> bool:
        known = self.node_id in self._link.snapshot.nodes
        # Partitions whose batches were not sent yet wait for the connection too.
        return bool(self._ready) or ((self.stalled or self._gone) and known)

    def offer(self, partition: TargetPartition) -> None:
        """Queue a partition that has a batch to send; `pump` sends it."""
        self._ready[partition] = None

    def withdraw(self, partition: TargetPartition) -> None:
        """Remove a partition that another broker leads now."""
        self._ready.pop(partition, None)

    def pump(self) -> None:
        """Send all requests that may be in flight now, together."""
        sent = False
        while self._ready and self.sendable:
            channel = self.channel
            if channel is None or channel.in_flight >= self._produce.max_in_flight:
                break
            if not self._send_one():
                break
            sent = True
        if sent:
            self._flush()

    def _send_one(self) -> bool:
        batches: dict[TopicPartition, memoryview | bytearray] = {}
        sent: list[tuple[TargetPartition, Outgoing]] = []
        size = 0
        now = self._loop.now()
        again: list[TargetPartition] = []
        while self._ready:
            partition = next(iter(self._ready))
            if not self._may_send(partition, now):
                del self._ready[partition]
                continue
            if sent and size + len(partition.queue[0].data) > self._request_bytes:
                break
            del self._ready[partition]
            batch = self._stamp(partition)
            batches[partition.target] = batch.data
            sent.append((partition, batch))
            size += len(batch.data)
            if partition.queue:
                again.append(partition)
        for partition in again:
            self._ready[partition] = None
        if sent:
            self._transmit(batches, sent)
        return bool(sent)

    def _may_send(self, partition: TargetPartition, now: float) -> bool:
        if (
            not partition.queue
            or partition.target_node != self.node_id
            or partition.state is not CopyState.ACTIVE
            or partition.send_held
            or partition.producer_id < 0
        ):
            return False
        # A broker without state for the producer accepts a batch with any sequence number. So a
        # later batch must not reach it before an earlier one is surely written. It must not go to a
        # new leader before the old one has responded, nor to a broker that has never responded to
        # this producer.
        sent_to = (partition.sent_node, partition.sent_epoch)
        moved = sent_to != (self.node_id, partition.target_epoch)
        if moved and not partition.in_flight:
            partition.pipelined_until = 0.0
        partition.awaits_answers = bool(partition.in_flight) and (
            moved or now >= partition.pipelined_until or len(partition.in_flight) >= MOST_IN_FLIGHT
        )
        if partition.awaits_answers:
            return False
        return self._transactions is None or self._transactions.admits(partition)

    def _stamp(self, partition: TargetPartition) -> Outgoing:
        """Take the partition's next batch and set its producer fields."""
        partition.sent_node, partition.sent_epoch = self.node_id, partition.target_epoch
        batch = partition.take_next()
        stamp_for_produce(
            batch.data,
            partition.producer_id,
            partition.producer_epoch,
            batch.sequence,
            transactional=self._transactions is not None,
        )
        return batch

    def _transmit(
        self,
        batches: dict[TopicPartition, memoryview | bytearray],
        sent: list[tuple[TargetPartition, Outgoing]],
    ) -> None:
        channel = self.channel
        assert channel is not None
        timeout_ms = self._produce.request_timeout_ms
        transactional_id = (
            None if self._transactions is None else self._transactions.transactional_id
        )
        body, size = encode_produce(batches, timeout_ms, transactional_id)
        now = self._loop.now()
        self._sent.append(Sent(now, sent))
        deadline = now + (timeout_ms + min(timeout_ms, _MOST_GRACE_MS)) / 1000
        if not channel.in_flight:
            self._progress_at = now
        channel.send(
            PRODUCE_API, PRODUCE_VERSION, body, size, deadline, self._answered, flush=False
        )

    def _flush(self) -> None:
        channel = self.channel
        assert channel is not None
        try:
            channel.flush()
            self._loop.update(channel)
        except ConnectError as error:
            self.lose_soon(channel, error)

    def _answered(self, response: Response) -> None:
        results, throttle_ms = parse_produce(response.body)
        self._pool.release(response.buffer)
        self.throttle(throttle_ms)
        self._progress_at = now = self._loop.now()
        sent = self._sent.popleft()
        self._produce_ms.record((now - sent.at) * 1000, int(now * 1000))
        by_partition = {(result.topic, result.partition): result for result in results}
        missing = CorruptData(f"{self.role} {self.node_id} did not respond to a batch")
        self._responses.on_results(
            [
                ProduceResult(partition, batch, by_partition.get(partition.target) or missing)
                for partition, batch in sent.batches
            ]
        )
        self._flow(stalled=False)

    def on_received(self) -> None:
        self.pump()

    def on_connected(self) -> None:
        self._gone = False
        self._flow(stalled=False)

    def check_deadline(self, now: float) -> None:
        super().check_deadline(now)
        channel = self.channel
        if channel is None or not channel.in_flight:
            return
        silent_since = max(self._progress_at, channel.throttled_until)
        if now - silent_since > STALLED_AFTER_S:
            self._flow(stalled=True)

    def _flow(self, *, stalled: bool) -> None:
        if self.stalled != stalled:
            self.stalled = stalled
            self._responses.on_flow(self)

    def on_lost(self, error: ConnectError) -> None:
        # Connect even if nothing is to be sent: the current leader may lack acknowledged records,
        # and only an attempt to connect shows that another broker leads.
        self._gone = True
        waiting, self._sent = self._sent, deque()
        lost = [each for sent in waiting for each in sent.batches]
        self._responses.on_results(
            [ProduceResult(partition, batch, error) for partition, batch in lost]
        )
        if self.error is not None:
            self._flow(stalled=True)
