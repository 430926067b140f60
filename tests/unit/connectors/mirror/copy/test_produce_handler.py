"""Whatever the target does, partitions arrive in order, once, and where the copier says they are.

The copier's half is real: deliveries, recovery, target nodes, channels and the selector loop, on
socket pairs. The target is scripted (`scripted_target`), and time stands still unless moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from connect.clients.config.settings import ProduceSettings
from connect.clients.wire.channel import Channel
from connect.clients.wire.selector_loop import SelectorLoop
from connect.protocol.messages import ProducedPartition
from connect.protocol.records import Record
from connectors.mirror.copy.brokers.target import ProduceResult, TargetNode
from connectors.mirror.copy.memory import FetchBuffer
from connectors.mirror.copy.partition.partition import UNKNOWN, CopyState, PartitionCopy
from connectors.mirror.copy.partition.target_partition import TargetPartition
from connectors.mirror.copy.produce_handler import ProduceResponseHandler
from connectors.mirror.copy.producer_ids import ProducerIds
from connectors.mirror.metrics import CopyTotals, PartitionMetrics
from connectors.mirror.offsets.offset_map_pages import OffsetRun
from tests.support.copier import partition_invariants
from tests.support.copier.outgoing import outgoing
from tests.support.fake_clock import FakeClock
from tests.support.records.batches import encode_batch
from tests.unit.connectors.mirror.copy.contexts import context
from tests.unit.connectors.mirror.copy.scripted_target import NODES, Fate, Log, ScriptedTarget

PARTITIONS = (0, 1)
OUT_OF_ORDER = 45
MOST_QUEUED = 8


class Copier:
    """The producing half of a copy engine, with a source whose records are their offsets."""

    def __init__(self, target: ScriptedTarget) -> None:
        self.clock = FakeClock()
        self.loop = SelectorLoop(self.clock)
        self.acked: dict[int, dict[int, int]] = {p: {} for p in PARTITIONS}
        self.resumes: dict[int, list[int]] = {p: [] for p in PARTITIONS}
        self.context = context(
            self.loop,
            self.clock,
            None,
            target,
            self._acked,
            produce=ProduceSettings(max_request_size=1_500),
            buffer_bytes=64 * 1024 * 1024,
        )
        self.budget = self.context.budget
        self.producers = ProducerIds(self.context, None)
        self.deliveries = ProduceResponseHandler(self.context, self.producers, None)
        self.loop.after_each(self.drain)
        self.nodes = {n: TargetNode(n, self.context, self) for n in NODES}
        for node in self.nodes.values():
            node._request_bytes = 1_500
        self.totals = CopyTotals()
        self.partitions: dict[int, PartitionCopy] = {}
        self.partitions |= {p: self.add(p) for p in PARTITIONS}

    def add(self, number: int, position: int = 0) -> PartitionCopy:
        metrics = PartitionMetrics("s", "t", "copy", number, totals=self.totals, clock=self.clock)
        partition = PartitionCopy(("source", number), ("copy", number), metrics)
        partition.begin_at(position)
        partition.target_node = 1
        self.producers.equip(partition)
        return partition

    def _acked(self, partition: PartitionCopy, runs: Sequence[OffsetRun], base: int) -> None:
        acked = self.acked[partition.source[1]]
        for first, count in runs:
            for n in range(count):
                assert first + n > max(acked, default=-1), "acknowledged out of order"
                acked[first + n] = base
                base += 1
        self.resumes[partition.source[1]].append(partition.acked_position)

    def on_results(self, results: Sequence[ProduceResult]) -> None:
        self.deliveries.apply(results)
        self.drain()

    def on_flow(self, node: TargetNode) -> None:
        """Nobody asks."""

    def drain(self) -> None:
        """As the engine does after each callback."""
        changed, self.context.changed = self.context.changed, {}
        for partition in changed:
            self.moved(partition)
        for found in self.partitions.values():
            assert found.landed_early is None, f"{found.target} has lost nothing"

    def moved(self, partition: TargetPartition) -> None:
        if partition.queue and partition.target_node != UNKNOWN:
            node = self.nodes[partition.target_node]
            node.offer(partition)
            self.loop.soon(node.pump)

    def fetch(self, partition: PartitionCopy, count: int) -> None:
        """`count` records arrive from the source, where the partition is fetched at all."""
        if (
            partition.state is not CopyState.ACTIVE
            or partition.leaving
            or len(partition.queue) >= MOST_QUEUED
        ):
            return
        first = partition.position
        records = [Record(first + n, 1_000, None, b"%d" % (first + n)) for n in range(count)]
        data = bytearray(encode_batch(records, base_offset=first))
        # Half of the batches share a buffer with something else, as those of a fetch do.
        buffer = FetchBuffer(self.budget, bytearray(5_000) if count % 2 else data)
        partition.enqueue(outgoing(data, first, count, buffer, max_timestamp=1_000), first)
        self.moved(partition)

    def lead(self, partition: PartitionCopy, node_id: int) -> None:
        """Metadata says that this broker leads the partition."""
        if partition.target_node != node_id:
            self.nodes[partition.target_node].withdraw(partition)
            partition.target_node = node_id
        self.moved(partition)

    def turn(self) -> None:
        for _ in range(6):
            self.loop.turn(0.0)

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()
        self.loop.close()


class Delivering(RuleBasedStateMachine):
    @initialize(largest=st.sampled_from([150, 400, 1 << 30]))
    def start(self, largest: int) -> None:
        self.target = ScriptedTarget({("copy", p): Log(largest=largest) for p in PARTITIONS})
        self.copier = Copier(self.target)
        self.copier.turn()

    @rule(number=st.sampled_from(PARTITIONS), counts=st.lists(st.integers(1, 30), max_size=5))
    def fetch(self, number: int, counts: list[int]) -> None:
        for count in counts:
            self.copier.fetch(self.copier.partitions[number], count)
        self.copier.turn()

    @rule(
        first=st.sampled_from(NODES),
        fates=st.lists(st.sampled_from([*Fate, Fate.TAKEN, Fate.TAKEN]), min_size=1, max_size=6),
    )
    def answer(self, first: int, fates: list[Fate]) -> None:
        for fate in fates:
            if not self.target.handle(first, fate):
                self.target.handle(3 - first, fate)
            self.copier.turn()

    @rule(number=st.sampled_from(PARTITIONS), counts=st.lists(st.integers(1, 30), min_size=1))
    def fetch_while_it_works(self, number: int, counts: list[int]) -> None:
        for count in counts:
            self.copier.fetch(self.copier.partitions[number], count)
            self.copier.turn()
            for node in NODES:
                self.target.handle(node, Fate.TAKEN)
        self.copier.turn()

    @rule(node=st.sampled_from(NODES), handled=st.integers(0, 5))
    def lose(self, node: int, handled: int) -> None:
        for _ in range(handled):
            self.target.handle(node, Fate.TAKEN, answer=False)
        self.target.close(node)
        self.copier.turn()

    @rule(number=st.sampled_from(PARTITIONS), node=st.sampled_from(NODES))
    def another_leads(self, number: int, node: int) -> None:
        self.target.logs["copy", number].leader = node

    @rule(number=st.sampled_from(PARTITIONS))
    def learn_the_leader(self, number: int) -> None:
        self.copier.lead(self.copier.partitions[number], self.target.logs["copy", number].leader)
        self.copier.turn()

    @rule(seconds=st.sampled_from([0.05, 1.0, 10.0, 1_000.0]))
    def time_passes(self, seconds: float) -> None:
        self.copier.clock.advance(seconds)
        self.copier.turn()

    @rule(number=st.sampled_from(PARTITIONS))
    def relieve(self, number: int) -> None:
        self.copier.partitions[number].evacuate(self.copier.budget)
        self.copier.turn()

    @rule(number=st.sampled_from(PARTITIONS))
    @precondition(lambda self: not any(p.outcome_unknown for p in self.copier.partitions.values()))
    def leave_and_come_back(self, number: int) -> None:
        partition = self.copier.partitions[number]
        self.copier.nodes[partition.target_node].withdraw(partition)
        partition.leaving = True
        partition.drop_all()
        back = self.copier.add(number, partition.acked_position)
        self.copier.partitions[number] = back
        self.copier.lead(back, partition.target_node)
        self.copier.turn()

    @invariant()
    def the_target_has_each_record_once_and_in_order(self) -> None:
        for number in PARTITIONS:
            records = self.target.logs["copy", number].records
            assert records == list(range(len(records)))

    @invariant()
    def what_is_acknowledged_is_where_it_was_said_to_be(self) -> None:
        for number in PARTITIONS:
            records = self.target.logs["copy", number].records
            acked = self.copier.acked[number]
            assert list(acked) == list(range(len(acked)))
            assert all(records[at] == source for source, at in acked.items())
            resumes = self.copier.resumes[number]
            assert resumes == sorted(resumes)
            assert self.copier.partitions[number].acked_position == len(acked)

    @invariant()
    def records_under_way_are_counted(self) -> None:
        partitions = self.copier.partitions.values()
        under_way = [batch for p in partitions for batch in (*p.in_flight, *p.queue)]
        assert self.copier.totals.waiting == sum(batch.records for batch in under_way)

    @invariant()
    def partitions_are_valid(self) -> None:
        for partition in self.copier.partitions.values():
            partition_invariants.check(partition)

    def teardown(self) -> None:
        copier = getattr(self, "copier", None)
        if copier is None:
            return
        try:
            self._heal(copier)
        finally:
            copier.close()
            self.target.close_all()

    def _heal(self, copier: Copier) -> None:
        """With a target that works, everything arrives and nothing is held any more."""
        for log in self.target.logs.values():
            log.largest = 1 << 30
        for _ in range(200):
            for number, partition in copier.partitions.items():
                copier.lead(partition, self.target.logs["copy", number].leader)
            copier.turn()
            for node in NODES:
                while self.target.handle(node, Fate.TAKEN):
                    copier.turn()
            copier.clock.advance(2.0)
            copier.turn()
            if not any(p.queue or p.in_flight for p in copier.partitions.values()):
                break
        self.the_target_has_each_record_once_and_in_order()
        self.what_is_acknowledged_is_where_it_was_said_to_be()
        for partition in copier.partitions.values():
            assert not partition.queue
            assert not partition.in_flight
            assert partition.acked_position == partition.position
            assert partition.pending_bytes == 0
            assert partition.unanswered == 0
        assert copier.budget.used == 0


TestDelivering = cast("Any", Delivering).TestCase
TestDelivering.settings = settings(
    max_examples=100,
    stateful_step_count=50,
    suppress_health_check=[HealthCheck.too_slow],
)


def test_a_loss_shows_where_a_later_batch_lands_while_the_first_is_refused() -> None:
    """The first one is sent again, behind the others: its offset would not show that the target
    lost what it had before."""
    target = ScriptedTarget({("copy", n): Log() for n in PARTITIONS})
    copier = Copier(target)
    try:
        partition = copier.partitions[0]
        partition.target_end = 4
        partition.producer_id, partition.producer_epoch = 7, 0
        copier.fetch(partition, 3)
        copier.fetch(partition, 5)
        batches = [partition.take_next(), partition.take_next()]
        answers = [(OUT_OF_ORDER, -1), (0, 0)]
        copier.deliveries.apply(
            [
                ProduceResult(
                    partition,
                    batch,
                    ProducedPartition(*partition.target, error, base, -1, -1, None),
                )
                for batch, (error, base) in zip(batches, answers, strict=True)
            ]
        )
        assert partition.landed_early == 0
        assert list(partition.in_flight) == batches, "it is examined before they are sent again"
    finally:
        copier.close()
        target.close_all()


def test_a_batch_that_is_split_counts_as_progress() -> None:
    """A status that is written in between would say that the partition is stuck."""
    target = ScriptedTarget({("copy", n): Log(largest=150) for n in PARTITIONS})
    copier = Copier(target)
    try:
        partition = copier.partitions[0]
        copier.turn()
        copier.fetch(partition, 30)
        copier.turn()
        while partition.acked_position < 30:
            assert target.handle(1, Fate.TAKEN)
            copier.turn()
            assert partition.error is None
        assert len(partition.queue) == 0
    finally:
        copier.close()
        target.close_all()


def test_a_single_record_that_is_too_large_says_what_to_raise() -> None:
    target = ScriptedTarget({("copy", n): Log(largest=60) for n in PARTITIONS})
    copier = Copier(target)
    try:
        partition = copier.partitions[0]
        copier.turn()
        copier.fetch(partition, 4)
        copier.turn()
        while partition.state is CopyState.ACTIVE:
            assert partition.error is None, "nothing but the last split is an error"
            assert target.handle(1, Fate.TAKEN)
            copier.turn()
        assert partition.error is not None
        assert "source offset 0 " in partition.error
        assert "max.message.bytes: raise it" in partition.error
    finally:
        copier.close()
        target.close_all()


def test_answers_that_arrived_together_are_followed_by_one_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = ScriptedTarget({("copy", p): Log() for p in PARTITIONS})
    copier = Copier(target)
    writes: list[int] = []
    send_some = Channel._send_some

    def counting(channel: Channel) -> int:
        writes.append(send_some(channel))
        return writes[-1]

    try:
        copier.turn()
        partition = copier.partitions[PARTITIONS[0]]
        copier.fetch(partition, 1)
        copier.turn()
        assert target.handle(1, Fate.TAKEN), "the broker knows the producer from now on"
        copier.turn()
        for _ in range(MOST_QUEUED):
            copier.fetch(partition, 1)
        copier.turn()
        for _ in range(MOST_QUEUED):
            copier.fetch(partition, 1)
        sent = len(target.waiting(1))
        assert sent > 1
        monkeypatch.setattr(Channel, "_send_some", counting)
        for _ in range(sent):
            assert target.handle(1, Fate.TAKEN)
        copier.loop.turn(0.0)
        assert len(target.waiting(1)) > 1
        assert len(writes) == 1
    finally:
        copier.close()
        target.close_all()
