"""When the copier's transactions begin and end, who takes part, and what is told afterwards.

The coordinator is a script: its answers come when a test gives them. Time stands still unless
moved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from types import MappingProxyType, SimpleNamespace
from uuid import UUID

import pytest

from connect.clients.cluster.metadata import ClusterSnapshot
from connect.clients.transactions.coordinator import AbortableTransactionError
from connect.clients.transactions.producer import ProducerFenced
from connect.clients.wire.selector_loop import SelectorLoop
from connect.errors import ConnectError
from connect.plugin import OFFSET_NOTE, SourcePartition, StoredOffset
from connect.protocol.messages import ProducedPartition, TopicPartition
from connect.protocol.records import Record, iter_records
from connectors.mirror.config.losses import Loss, LossKind, LossPolicy
from connectors.mirror.copy.batches.outgoing import Failure, Outgoing
from connectors.mirror.copy.context import (
    CopyListener,
    LossFound,
    Overdue,
    RefusedByTransaction,
    Settled,
)
from connectors.mirror.copy.memory import FetchBuffer
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.partition.states import CopyLife, CopyState
from connectors.mirror.copy.partition.target_partition import TargetPartition
from connectors.mirror.copy.settings import TransactionPlan
from connectors.mirror.copy.transactions.manager import TransactionManager
from connectors.mirror.copy.transactions.offsets_partitions import OffsetsPartition
from connectors.mirror.copy.transactions.states import Phase
from connectors.mirror.metrics import PartitionMetrics
from connectors.mirror.offsets.log_identity import noted_facts
from connectors.mirror.offsets.offset_map_pages import OffsetRun
from tests.support.copier.outgoing import outgoing
from tests.support.fake_clock import FakeClock
from tests.support.records.batches import encode_batch
from tests.unit.connectors.mirror.copy.contexts import context

OFFSETS = "offsets"
TIMEOUT_S = 60.0
TOPIC_AUTHORIZATION_FAILED, NOT_ATTEMPTED = 29, 55
OUT_OF_ORDER = 45


class Coordinator:
    """A `plugin.TransferTransactions` whose answers a test gives."""

    transactional_id = "g-c-0"
    offsets_topic = OFFSETS
    timeout_s = TIMEOUT_S
    boundary_s: float | None = None
    trouble: str | None = None

    def __init__(self) -> None:
        self.producer = (7, 0)
        self.added: list[tuple[TopicPartition, ...]] = []
        self.adds: list[Future[Mapping[TopicPartition, int]]] = []
        self.commits: list[tuple[int, Future[None]]] = []
        self.aborts: list[tuple[str, Future[None]]] = []

    def add(self, partitions: Sequence[TopicPartition]) -> Future[Mapping[TopicPartition, int]]:
        self.added.append(tuple(partitions))
        self.adds.append(Future())
        return self.adds[-1]

    def offset_key(self, partition: SourcePartition) -> bytes:
        return str(partition).encode()

    def offset_records(self, offsets: Sequence[StoredOffset]) -> list[tuple[bytes, bytes | None]]:
        return [(str(key).encode(), str(value).encode()) for key, value in offsets]

    def notes(self, partitions: Sequence[SourcePartition]) -> list[bytes | None]:
        raise NotImplementedError

    def commit(self, records: int) -> Future[None]:
        self.commits.append((records, Future()))
        return self.commits[-1][1]

    def confirm(self) -> Future[None]:
        raise NotImplementedError

    def note(self, records: int, ms: float) -> None:
        raise NotImplementedError

    def abort(self, why: str) -> Future[None]:
        self.aborts.append((why, Future()))
        return self.aborts[-1][1]


class Bench:
    """Transactions of a copier with two partitions, and what they ask of it."""

    def __init__(self, boundary_s: float | None = None) -> None:
        self.clock = FakeClock()
        self.loop = SelectorLoop(self.clock)
        self.control = Coordinator()
        self.control.boundary_s = boundary_s
        self.refused: list[tuple[PartitionCopy, int]] = []
        self.settled: list[tuple[PartitionCopy, Sequence[OffsetRun]]] = []
        self.on_lost: Callable[[PartitionCopy], None] = lambda _: None
        self.cut: list[TargetPartition] = []
        self.committed = 0
        self.stored: list[int] = []
        """The partitions whose source offsets the last transaction stored."""
        self.partitions: Collection[PartitionCopy] = [self.partition(n) for n in (0, 1)]
        link = SimpleNamespace(
            snapshot=ClusterSnapshot(partition_counts=MappingProxyType({OFFSETS: 1})),
            request_refresh=lambda topics: None,
        )
        listener = CopyListener(
            acked=lambda partition, runs, _: self.settled.append((partition, runs)),
            lost=lambda partition, _: self.on_lost(partition),
            committed=self._told,
        )
        self.context = context(
            self.loop, self.clock, None, link, listener=listener, buffer_bytes=1 << 20
        )
        self.context.partitions.update({p.source: p for p in self.partitions})
        self.loop.after_each(self.drain)
        self.transactions = TransactionManager(
            self.context,
            TransactionPlan(self.control, lambda key: {"t": key[0], "p": key[1]}),
        )
        for partition in self.partitions:
            self.transactions.equip(partition)

    @staticmethod
    def partition(number: int) -> PartitionCopy:
        return PartitionCopy(
            source=("t", number),
            target=("A.t", number),
            metrics=PartitionMetrics("A", "B", "A.t", number),
            life=CopyLife(CopyState.ACTIVE),
            acked_position=100,
            stored_position=100,
        )

    def _told(self, stored: Sequence[PartitionCopy]) -> None:
        self.committed += 1
        self.stored = [partition.source[1] for partition in stored]

    # What transactions post.

    def drain(self) -> None:
        """As the engine does after each callback."""
        while self.context.events or self.context.changed:
            while self.context.events:
                event = self.context.events.popleft()
                if isinstance(event, Overdue):
                    self.cut.append(event.partition)
                elif isinstance(event, RefusedByTransaction):
                    event.partition.block()
                    self.refused.append((event.partition, event.code))
            changed, self.context.changed = self.context.changed, {}
            for partition in changed:
                if partition.queue:  # As the target's node does, ask whether it may be sent.
                    self.transactions.admits(partition)

    # What happens.

    def phase(self) -> Phase:
        return self.transactions._life.phase

    def turn(self, seconds: float = 0.0) -> None:
        self.clock.advance(seconds)
        for _ in range(3):
            self.loop.turn(0)

    def fetched(self, partition: PartitionCopy, records: int = 10) -> None:
        first = partition.position
        data = bytearray(encode_batch([Record(0, 0, None, b"v")], base_offset=0))
        buffer = FetchBuffer(self.context.budget, data)
        partition.enqueue(outgoing(data, first, records, buffer), first)
        self.context.mark(partition)
        self.drain()
        self.turn()

    def allow(self, codes: Mapping[TopicPartition, int] | None = None) -> None:
        """The coordinator's answer to the newest request to add."""
        self.control.adds[-1].set_result(
            {key: (codes or {}).get(key, 0) for key in self.control.added[-1]}
        )
        self.turn()

    def send(self, partition: TargetPartition) -> Outgoing:
        assert self.transactions.admits(partition)
        return partition.take_next()

    def answer(self, partition: TargetPartition, base: int = 0) -> None:
        """The oldest batch in flight is acknowledged."""
        partition.accepted(partition.in_flight[0], base)
        batch = partition.next_acknowledged()
        assert batch is not None
        if isinstance(partition, PartitionCopy):
            self.transactions.hold(
                Settled(partition, batch.runs, base, batch.records, batch.max_timestamp, True)
            )
        self.transactions.answered(some_idle=True)
        self.turn()

    def copy(self, partition: PartitionCopy) -> None:
        self.fetched(partition)
        self.allow()
        self.send(partition)
        self.answer(partition)

    def until_storing(self) -> OffsetsPartition:
        self.turn(10.0)
        assert self.phase() is Phase.STORING
        (offsets,) = self.transactions.offsets_partitions
        assert isinstance(offsets, OffsetsPartition)
        return offsets

    def commit(self) -> None:
        offsets = self.until_storing()
        self.send(offsets)
        self.answer(offsets)
        self.control.commits[-1][1].set_result(None)
        self.turn()

    def abort_for(self, partition: PartitionCopy) -> None:
        answer = ProducedPartition(*partition.target, OUT_OF_ORDER, -1, -1, -1, None)
        assert self.transactions.aborts(answer)
        self.transactions.abort_for(partition, "OUT_OF_ORDER_SEQUENCE_NUMBER")


def loss_of(partition: PartitionCopy) -> Loss:
    kind, policy = LossKind.RETENTION, LossPolicy.REPORT
    return Loss(kind, policy, partition.source, partition.target, 0, 5, 0, 5)


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Parameter: the asked interval."""
    made = Bench(getattr(request, "param", None))
    yield made
    made.transactions.close()
    made.loop.close()


def first(bench: Bench) -> PartitionCopy:
    return next(iter(bench.partitions))


def second(bench: Bench) -> PartitionCopy:
    return list(bench.partitions)[1]


def test_batches_wait_until_their_partitions_were_added(
    bench: Bench,
) -> None:
    one = first(bench)
    bench.fetched(one)
    assert bench.control.added == [(("A.t", 0), (OFFSETS, 0))]
    assert not bench.transactions.admits(one)
    bench.allow()
    assert bench.transactions.admits(one)
    # The offsets partition is there already when another partition comes.
    bench.fetched(second(bench))
    assert bench.control.added[1:] == [(("A.t", 1),)]


def test_it_is_told_after_the_commit_and_not_before(bench: Bench) -> None:
    one = first(bench)
    bench.copy(one)
    offsets = bench.until_storing()
    assert not bench.transactions.admits(one) if one.queue else True
    bench.send(offsets)
    bench.answer(offsets)
    assert [records for records, _ in bench.control.commits] == [10]
    assert bench.settled == []
    assert one.stored_position == 100
    bench.control.commits[0][1].set_result(None)
    bench.turn()
    assert bench.settled == [(one, ((100, 10),))]
    assert (one.stored_position, bench.committed) == (110, 1)
    assert bench.phase() is Phase.IDLE


def test_what_is_known_of_the_logs_is_noted_with_the_source_offset(bench: Bench) -> None:
    one = first(bench)
    one.source_topic_id = UUID(int=5)
    bench.copy(one)
    offsets = bench.until_storing()
    (record,) = iter_records(offsets.queue[0].data)
    note = dict(record.headers)[OFFSET_NOTE]
    facts = noted_facts(note, 110)
    assert facts is not None
    assert facts.source_topic_id == UUID(int=5)
    assert noted_facts(note, 111) is None, "somebody else stored another offset"


def test_nothing_is_sent_while_it_ends_and_all_of_it_goes_on_after(bench: Bench) -> None:
    one = first(bench)
    bench.copy(one)
    offsets = bench.until_storing()
    bench.fetched(one)
    bench.fetched(second(bench))
    assert not bench.transactions.admits(one)
    assert len(bench.control.added) == 1
    bench.send(offsets)
    bench.answer(offsets)
    bench.control.commits[0][1].set_result(None)
    bench.turn()
    assert set(bench.control.added[1]) == {("A.t", 0), ("A.t", 1), (OFFSETS, 0)}


def test_it_does_not_end_before_everything_is_answered(bench: Bench) -> None:
    one = first(bench)
    bench.fetched(one)
    bench.fetched(one)
    bench.allow()
    bench.send(one)
    bench.turn(1.0)
    assert bench.phase() is Phase.CLOSING
    assert not bench.transactions.admits(one), "the second batch is for the next transaction"
    bench.answer(one)
    assert bench.phase() is Phase.STORING


def test_what_was_aborted_is_next_again_under_another_producer(bench: Bench) -> None:
    one, two = bench.partitions
    bench.copy(one)
    bench.fetched(one)
    bench.send(one)
    bench.abort_for(one)
    bench.turn()
    assert bench.control.aborts == [], "what was sent is not answered yet"
    one.failed(one.in_flight[0], Failure.RETRY, "gone", maybe=True)
    bench.transactions.answered(some_idle=False)
    bench.turn()
    bench.control.producer = (7, 1)
    bench.control.aborts[0][1].set_result(None)
    bench.turn()
    assert (one.position, one.acked_position) == (100, 100)
    assert (one.producer_id, one.producer_epoch, one.next_sequence) == (7, 1, 0)
    assert (two.producer_epoch, two.position) == (1, 100)
    assert bench.settled == []
    assert bench.control.commits == []
    # And once more, all of it.
    bench.fetched(one)
    bench.turn(1.0)
    bench.allow()
    bench.send(one)
    bench.answer(one)
    bench.commit()
    assert bench.settled == [(one, ((100, 10),))]


def test_a_loss_is_told_after_what_was_acknowledged_before_it(bench: Bench) -> None:
    one, two = bench.partitions
    told: list[tuple[PartitionCopy, int]] = []
    bench.on_lost = lambda partition: told.append((partition, len(bench.settled)))
    bench.copy(one)
    bench.transactions.report(LossFound(two, loss_of(two)))
    bench.transactions.report(LossFound(one, loss_of(one)))
    bench.fetched(one)
    bench.send(one)
    bench.answer(one)
    bench.commit()
    assert told == [(two, 0), (one, 1)], "the second is part of the transaction"
    assert len(bench.settled) == 2


def test_a_loss_is_told_though_the_transaction_is_aborted(bench: Bench) -> None:
    one = first(bench)
    told: list[PartitionCopy] = []
    bench.on_lost = told.append
    bench.copy(one)
    bench.transactions.report(LossFound(one, loss_of(one)))
    bench.abort_for(one)
    bench.turn()
    assert told == []
    bench.control.aborts[0][1].set_result(None)
    bench.turn()
    assert (told, bench.settled) == ([one], [])


def test_a_place_in_a_log_that_is_another_now_is_not_what_is_stored(bench: Bench) -> None:
    one, two = bench.partitions
    bench.copy(one)
    bench.fetched(two)
    bench.allow()
    bench.send(two)
    bench.answer(two)
    offsets = bench.until_storing()
    one.relocate(0)
    bench.transactions.relocated(one)
    bench.send(offsets)
    bench.answer(offsets)
    bench.control.commits[0][1].set_result(None)
    bench.turn()
    assert (one.stored_position, two.stored_position) == (110, 110)
    assert (one.unstored, one.held_back, two.unstored) == (True, True, False)


def test_a_lower_position_is_stored_before_its_records_are_copied_again(bench: Bench) -> None:
    one = first(bench)
    bench.copy(one)
    bench.commit()
    one.relocate(0)
    bench.transactions.relocated(one)
    assert one.held_back
    bench.turn(1.0)
    bench.allow()
    offsets = bench.until_storing()
    stored = bench.send(offsets)
    assert [each.value for each in iter_records(bytes(stored.data))] == [b"{'offset': -1}"]
    bench.answer(offsets)
    bench.control.commits[1][1].set_result(None)
    bench.turn()
    assert (one.stored_position, one.unstored, one.held_back) == (0, False, False)


def test_what_an_aborted_transaction_was_to_store_is_not_stored(bench: Bench) -> None:
    one = first(bench)
    bench.copy(one)
    bench.until_storing()
    bench.transactions.abort_for(one, "simulated")
    bench.turn()
    bench.control.aborts[0][1].set_result(None)
    bench.turn()
    assert (one.acked_position, one.stored_position, one.held_back) == (100, 100, False)


def test_a_sequence_that_begins_anew_is_of_another_epoch(bench: Bench) -> None:
    """Else the target could take its first batch for the one it has with the same numbers."""
    one = first(bench)
    bench.copy(one)
    one.restart_sequence()
    bench.transactions.equip(one)
    bench.fetched(one)
    assert not bench.transactions.admits(one)
    assert len(bench.control.aborts) == 1
    bench.control.producer = (7, 1)
    bench.control.aborts[0][1].set_result(None)
    bench.turn()
    assert (one.producer_epoch, one.next_sequence, len(bench.control.aborts)) == (1, 0, 1)


def test_what_is_being_committed_is_not_aborted_for_a_new_sequence(bench: Bench) -> None:
    one = first(bench)
    bench.copy(one)
    offsets = bench.until_storing()
    bench.send(offsets)
    bench.answer(offsets)
    assert bench.phase() is Phase.COMMITTING
    one.restart_sequence()
    bench.transactions.equip(one)
    bench.turn()
    assert bench.control.aborts == []
    bench.control.commits[0][1].set_result(None)
    bench.turn()
    assert (len(bench.settled), one.stored_position) == (1, 110)
    assert len(bench.control.aborts) == 1, "another epoch"


def test_what_the_commit_before_had_is_not_copied_again(bench: Bench) -> None:
    one = first(bench)
    bench.copy(one)
    bench.commit()
    bench.copy(one)
    bench.abort_for(one)
    bench.turn()
    bench.control.aborts[0][1].set_result(None)
    bench.turn()
    assert (one.acked_position, one.stored_position) == (110, 110)


def test_a_connection_without_answers_is_cut_before_the_abort(bench: Bench) -> None:
    one = first(bench)
    bench.fetched(one)
    bench.allow()
    bench.send(one)
    bench.abort_for(one)
    bench.turn(6.0)
    assert bench.cut == [one]


def test_a_refused_partition_leaves_and_the_others_are_added(bench: Bench) -> None:
    one, two = bench.partitions
    bench.fetched(one)
    bench.allow({("A.t", 0): TOPIC_AUTHORIZATION_FAILED, (OFFSETS, 0): NOT_ATTEMPTED})
    assert [(p.target, code) for p, code in bench.refused] == [
        (("A.t", 0), TOPIC_AUTHORIZATION_FAILED)
    ]
    bench.fetched(two)
    bench.turn(0.1)
    bench.allow()
    assert bench.transactions.admits(two)


def test_one_in_trouble_does_not_keep_the_others_from_sending_until_it_lasts(bench: Bench) -> None:
    one, two = bench.partitions
    bench.copy(one)
    bench.fetched(two)
    bench.allow()
    bench.send(two)
    bench.context.silent.add(two.sent_node)
    bench.turn(10.0)
    bench.fetched(one)
    assert bench.transactions.admits(one), "it is still open"
    bench.turn(TIMEOUT_S / 3)
    assert bench.phase() is Phase.CLOSING
    bench.turn(TIMEOUT_S / 3)
    bench.turn(6.0)
    assert bench.phase() is Phase.ABORTABLE_ERROR
    assert bench.cut == [two]


def test_a_fenced_one_is_over(bench: Bench) -> None:
    bench.fetched(first(bench))
    bench.control.adds[-1].set_exception(ProducerFenced("Another producer has claimed it"))
    bench.turn()
    assert isinstance(bench.transactions.failure, ProducerFenced)
    assert bench.phase() is Phase.OVER
    assert not bench.transactions.admits(first(bench))


def test_a_commit_that_is_refused_is_an_abort(bench: Bench) -> None:
    one = first(bench)
    bench.copy(one)
    offsets = bench.until_storing()
    bench.send(offsets)
    bench.answer(offsets)
    bench.control.commits[0][1].set_exception(AbortableTransactionError("TRANSACTION_ABORTABLE"))
    bench.turn()
    assert [why for why, _ in bench.control.aborts] == ["TRANSACTION_ABORTABLE"]
    bench.control.aborts[0][1].set_result(None)
    bench.turn()
    assert one.acked_position == 100


def test_an_abort_that_is_refused_fails_the_task(bench: Bench) -> None:
    one = first(bench)
    bench.copy(one)
    bench.abort_for(one)
    bench.turn()
    bench.control.aborts[0][1].set_exception(
        AbortableTransactionError("INVALID_PRODUCER_ID_MAPPING")
    )
    bench.turn()
    assert isinstance(bench.transactions.failure, AbortableTransactionError)


def test_a_commit_of_unknown_outcome_fails_the_task(bench: Bench) -> None:
    bench.copy(first(bench))
    offsets = bench.until_storing()
    bench.send(offsets)
    bench.answer(offsets)
    bench.control.commits[0][1].set_exception(ConnectError("INVALID_TXN_STATE"))
    bench.turn()
    assert str(bench.transactions.failure) == "INVALID_TXN_STATE"
    assert bench.settled == []


def test_positions_that_moved_without_records_are_stored_on_request(bench: Bench) -> None:
    one = first(bench)
    one.skip_to(150)
    done = bench.transactions.request()
    bench.turn()
    assert bench.control.added == [((OFFSETS, 0),)]
    bench.allow()
    bench.commit()
    assert done.done()
    assert one.stored_position == 150
    assert bench.stored == [one.source[1]]
    assert bench.transactions.request().done(), "nothing is left to do"


@pytest.mark.parametrize("bench", [5.0], indirect=True)
def test_the_asked_interval_is_kept(bench: Bench) -> None:
    bench.copy(first(bench))
    bench.turn(4.9)
    assert bench.phase() is Phase.OPEN
    bench.turn(0.2)
    assert bench.phase() is Phase.STORING


@pytest.mark.parametrize("bench", [20.0], indirect=True)
def test_without_fetching_it_ends_at_once(bench: Bench) -> None:
    bench.copy(first(bench))
    bench.context.fetching = False
    bench.turn(0.1)
    assert bench.phase() is Phase.STORING


def test_adding_partitions_that_fails_while_it_is_committed_aborts_what_follows(
    bench: Bench,
) -> None:
    """Finding 15: the answer to the commit came in a phase that does not know it."""
    one, two = bench.partitions
    bench.copy(one)
    bench.fetched(two)
    offsets = bench.until_storing()
    bench.send(offsets)
    bench.answer(offsets)
    assert bench.phase() is Phase.COMMITTING
    bench.control.adds[-1].set_exception(AbortableTransactionError("TRANSACTION_ABORTABLE"))
    bench.turn()
    assert bench.control.aborts == []
    bench.control.commits[0][1].set_result(None)
    bench.turn()
    assert one.stored_position == 110
    assert [why for why, _ in bench.control.aborts] == ["TRANSACTION_ABORTABLE"]


def test_adding_partitions_that_fails_while_it_is_aborted_changes_nothing(bench: Bench) -> None:
    one, two = bench.partitions
    bench.copy(one)
    bench.fetched(two)
    bench.turn()
    bench.abort_for(one)
    bench.turn()
    assert bench.phase() is Phase.ABORTING
    bench.control.adds[-1].set_exception(AbortableTransactionError("TRANSACTION_ABORTABLE"))
    bench.turn()
    assert bench.transactions.failure is None
    bench.control.aborts[0][1].set_result(None)
    bench.turn()
    assert bench.phase() is Phase.IDLE
    assert len(bench.control.aborts) == 1


def test_nothing_is_committed_before_the_offsets_are_acknowledged(bench: Bench) -> None:
    """Finding 1: a silent leader of an offsets partition had its batch dropped, and the transaction
    was committed without it."""
    bench.copy(first(bench))
    offsets = bench.until_storing()
    offsets.evacuate(bench.context.budget)
    bench.transactions.answered(some_idle=True)
    bench.turn()
    assert (bench.phase(), bench.control.commits) == (Phase.STORING, [])
    bench.send(offsets)
    bench.answer(offsets)
    assert len(bench.control.commits) == 1
