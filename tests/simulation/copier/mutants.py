"""Known defects of the copier, put back one at a time.

Those with a number are of the review that led to the simulator; the others were found by it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from connect.clients.cluster.broker_node import BrokerNode
from connect.clients.wire.channel import Channel, Response
from connect.errors import ConnectError, CorruptData
from connect.protocol.batches import BatchHeader, abort_marker, crc_matches
from connect.protocol.messages import ProducedPartition, parse_produce
from connect.protocol.records import Rebatched, rebatch
from connectors.mirror.config.losses import Loss
from connectors.mirror.copy.batches import conversion
from connectors.mirror.copy.batches.outgoing import UNKNOWN, Failure, Outgoing
from connectors.mirror.copy.brokers import target as target_node
from connectors.mirror.copy.brokers.routing import BrokerRouting
from connectors.mirror.copy.brokers.source import SourceNode
from connectors.mirror.copy.brokers.target import ProduceResult, TargetNode
from connectors.mirror.copy.partition import target_partition
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.partition.states import CopyState
from connectors.mirror.copy.partition.target_partition import TargetPartition
from connectors.mirror.copy.positions.log_validation import LogValidation
from connectors.mirror.copy.positions.offset_reset import OffsetReset
from connectors.mirror.copy.produce_handler import ProduceResponseHandler
from connectors.mirror.copy.transactions.manager import TransactionManager
from connectors.mirror.copy.transactions.offsets_partitions import OffsetsPartition
from connectors.mirror.copy.transactions.states import Phase
from connectors.mirror.offsets.log_identity import LogIdentity
from tests.simulation.copier.status_mutants import STATUS_MUTANTS
from tests.simulation.mutants import Mutant, replacing

__all__ = ["MUTANTS"]

# 1: offsets that were dropped count as written.


def _nothing_waits(self: OffsetsPartition) -> bool:
    return not self.queue and not self.in_flight


# 2: partitions are sent, and connections lost, in the middle of another event.


def _offer_and_send(self: BrokerRouting, partition: TargetPartition) -> None:
    if partition.target_node != UNKNOWN:
        node = self._target_node(partition.target_node)
        node.offer(partition)
        node.pump()


def _lose_now(self: BrokerNode, channel: Channel, error: ConnectError) -> None:
    self.lose(error)


# 4: batches are sent while the results of one response are handled.


def _answer_one_by_one(self: TargetNode, response: Response) -> None:
    results, throttle_ms = parse_produce(response.body)
    self._pool.release(response.buffer)
    self.throttle(throttle_ms)
    self._progress_at = self._loop.now()
    sent = self._sent.popleft().batches
    by_partition = {(result.topic, result.partition): result for result in results}
    for partition, batch in sent:
        answer: ProducedPartition | ConnectError | None = by_partition.get(partition.target)
        self._responses.on_results(
            [ProduceResult(partition, batch, answer or CorruptData("left unanswered"))]
        )
        self._flow(stalled=False)
        self.pump()


# 10: sequence numbers are given back that were never given out.


def _drop_and_give_back(self: TargetPartition, kept: int) -> None:
    while len(self.queue) > kept:
        batch = self.queue.pop()
        self.next_sequence = batch.sequence & 0x7FFFFFFF
        self._let_go(batch)


# 12: any other topic id means that the topic was created again.


def _any_other_id(self: LogValidation, partition: PartitionCopy) -> None:
    partition.former_source_ids = ()
    _follow(self, partition)


_follow = LogValidation.follow


# 12b: and after a restart.


def _without_former_ids(self: PartitionCopy, facts: LogIdentity) -> None:
    _learn(self, replace(facts, former_source_ids=(), former_target_ids=()))


_learn = PartitionCopy.learn


# 13: what a leader knows of the producer is thought to be known to the next one, too.


def _may_send_on(self: TargetNode, partition: TargetPartition, now: float) -> bool:
    if (
        not partition.queue
        or partition.target_node != self.node_id
        or partition.state is not CopyState.ACTIVE
        or partition.send_held
        or partition.producer_id < 0
    ):
        return False
    partition.awaits_answers = bool(partition.in_flight) and (
        partition.sent_node != self.node_id or now >= partition.pipelined_until
    )
    if partition.awaits_answers:
        return False
    return self._transactions is None or self._transactions.admits(partition)


def _forget_but_pipeline(self: PartitionCopy, loss: Loss) -> None:
    until = self.pipelined_until
    _forget_lost(self, loss)
    self.pipelined_until = until


_forget_lost = PartitionCopy.forget_lost


def _take_and_pipeline(self: ProduceResponseHandler, *arguments: Any) -> None:
    partition = arguments[0]
    _take(self, *arguments)
    if arguments[1].answered:
        partition.pipelined_until = self._loop.now() + 600.0


_take = ProduceResponseHandler._take


# 15: a commit that was asked for is given up.


def _spoil_commits(self: TransactionManager, reason: str) -> None:
    self._abort_because(reason)


# Found by the simulator.


def _fail_while_aborting(self: TransactionManager, error: ConnectError) -> None:
    if self._life.phase is Phase.ABORTING:
        self.fail(error)
    else:
        _judge(self, error)


_judge = TransactionManager.judge


def _only_while_connected(self: BrokerNode, now: float) -> None:
    if self.channel is not None:
        _check_deadline(self, now)


_check_deadline = BrokerNode.check_deadline


def _same_offset(self: SourceNode, partition: PartitionCopy) -> bool:
    asked = self._session.requested(partition.source)
    return asked is not None and asked.offset == partition.position


def _requeue_unseeing(self: TargetPartition) -> tuple[Failure, str] | None:
    head: Outgoing | None = self.in_flight[0] if self.in_flight else None
    found = _requeue(self)
    if found is None or head is None or head.maybe_written:
        return found
    if head.failure in (Failure.BLOCK, Failure.QUARANTINE):
        return head.failure, found[1]
    return found


_requeue = TargetPartition.requeue


def _move_ahead(self: OffsetReset, search: Any, offset: int) -> None:
    if search.loss is not None:
        self._tell(search, offset)
    search.partition.relocate(offset)
    self._go_on(search.partition)


def _forget_maybe(self: TargetPartition) -> tuple[Failure, str] | None:
    head = self.in_flight[0] if self.in_flight else None
    split = head is not None and head.failure is Failure.SPLIT
    found = _requeue(self)
    if found is None or not split:
        return found
    return Failure.SPLIT, found[1]


def _held_back_unless_stopped(self: PartitionCopy) -> bool:
    before, self.standing = self.standing, None
    try:
        return _held_back(self)
    finally:
        self.standing = before


_held_back: Callable[[PartitionCopy], bool] = PartitionCopy.held_back.fget  # type: ignore[attr-defined]


def _whole_old_sets(
    batches: Sequence[memoryview], *, from_offset: int, **settings: Any
) -> list[Rebatched]:
    old = any(batch[_MAGIC_AT] < 2 for batch in batches)
    return rebatch(batches, from_offset=0 if old else from_offset, **settings)


_MAGIC_AT = 16


# 7: a control batch without its marker is corrupt.


def _marker_of_each(batch: memoryview) -> bool:
    if not int.from_bytes(batch[_COUNT_AT : _COUNT_AT + 4], "big"):
        raise CorruptData("control batch without a key of 4 bytes")
    return abort_marker(batch)


_COUNT_AT = 57

# 8: CRCs of magic 0 and 1 are not checked, and a set that cannot be read counts as empty.


def _crc_of_new_only(records: memoryview, header: BatchHeader) -> bool:
    return header.magic < 2 or crc_matches(records, header)


def _empty_if_unreadable(
    fetched: conversion.FetchedRecords, run: Sequence[BatchHeader], into: list[Outgoing]
) -> None:
    try:
        _record_by_record(fetched, run, into)
    except conversion._Unreadable:
        if run[0].magic == 2:
            raise


_record_by_record = conversion._record_by_record


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "offsets are shed",
        "copier",
        "1: a transaction commits without its source offsets, which were dropped for memory.",
        replacing(
            (OffsetsPartition, "shed", TargetPartition.shed),
            (OffsetsPartition, "evacuate", TargetPartition.evacuate),
            (OffsetsPartition, "stored", property(_nothing_waits)),
        ),
    ),
    Mutant(
        "sending re-enters",
        "copier",
        "2: a connection that breaks while a fetch is handled leaves batches out of order.",
        replacing((BrokerRouting, "offer", _offer_and_send), (BrokerNode, "lose_soon", _lose_now)),
    ),
    Mutant(
        "six in flight",
        "copier",
        "4: a sixth batch of a partition is sent while a response is handled.",
        replacing(
            (TargetNode, "_answered", _answer_one_by_one),
            (target_node, "MOST_IN_FLIGHT", 100),
            (target_partition, "MOST_IN_FLIGHT", 100),
        ),
    ),
    Mutant(
        "unknown sequence given back",
        "copier",
        "10: after batches that were never sent are dropped, sequence numbers begin with 2^31-1.",
        replacing((TargetPartition, "_drop_from", _drop_and_give_back)),
    ),
    Mutant(
        "stale topic id",
        "copier",
        "12: a broker with old metadata makes a topic look created again, and all is copied again.",
        replacing((LogValidation, "follow", _any_other_id)),
    ),
    Mutant(
        "stale topic id after a restart",
        "copier",
        "as 12, where the process that saw the topic go has ended since.",
        replacing((PartitionCopy, "learn", _without_former_ids)),
    ),
    Mutant(
        "pipelining outlives leaders",
        "copier",
        "13: several batches are in flight to a leader that does not know the producer.",
        replacing(
            (TargetNode, "_may_send", _may_send_on),
            (PartitionCopy, "forget_lost", _forget_but_pipeline),
            (ProduceResponseHandler, "_take", _take_and_pipeline),
        ),
    ),
    Mutant(
        "commit given up",
        "copier",
        "15: a partition that cannot be added while a commit is under way ends the task.",
        replacing((TransactionManager, "_abort", _spoil_commits)),
    ),
    Mutant(
        "refusal while aborting",
        "copier",
        "A partition that cannot be added while a transaction is aborted ends the task.",
        replacing((TransactionManager, "judge", _fail_while_aborting)),
    ),
    Mutant(
        "no way back to a broker",
        "copier",
        "A target broker that was not in the metadata for a while is never connected to again.",
        replacing((BrokerNode, "check_deadline", _only_while_connected)),
    ),
    Mutant(
        "answer of a former log",
        "copier",
        "A late answer of a deleted topic is taken for the one that was created again.",
        replacing((SourceNode, "answers", _same_offset)),
    ),
    Mutant(
        "quarantine before answers",
        "copier",
        "A record is put aside while the target may have batches behind it.",
        replacing((TargetPartition, "requeue", _requeue_unseeing)),
    ),
    Mutant(
        "truncation skips ahead",
        "copier",
        "After a truncation copying goes on at the end, though it had not come so far.",
        replacing((OffsetReset, "_move", _move_ahead)),
    ),
    Mutant(
        "split of a written batch",
        "copier",
        "A batch that the target may have is split, and committed without its offset.",
        replacing((TargetPartition, "requeue", _forget_maybe)),
    ),
    Mutant(
        "copied again before stored",
        "copier",
        "Lost records are copied again while a higher position is stored: a crash abandons that.",
        replacing((PartitionCopy, "behind_stored", property(lambda _: False))),
    ),
    Mutant(
        "stopped partition goes on",
        "copier",
        "A partition that a loss has stopped by its policy is fetched on.",
        replacing((PartitionCopy, "held_back", property(_held_back_unless_stopped))),
    ),
    Mutant(
        "whole sets of old messages",
        "copier",
        "A set of messages of magic 0 or 1 is copied whole, though a part of it was copied before.",
        replacing((conversion, "rebatch", _whole_old_sets)),
    ),
    Mutant(
        "empty control batch",
        "copier",
        "7: a control batch that compaction kept without its marker stops a read_committed copy.",
        replacing((conversion, "abort_marker", _marker_of_each)),
    ),
    Mutant(
        "old CRCs unchecked",
        "copier",
        "8: messages of magic 0 and 1 that the network has damaged are copied.",
        replacing((conversion, "crc_matches", _crc_of_new_only)),
    ),
    Mutant(
        "unreadable set skipped",
        "copier",
        "8: a set of messages of magic 0 or 1 that cannot be decoded is left out.",
        replacing(
            (conversion, "crc_matches", _crc_of_new_only),
            (conversion, "_record_by_record", _empty_if_unreadable),
        ),
    ),
    *STATUS_MUTANTS,
)
