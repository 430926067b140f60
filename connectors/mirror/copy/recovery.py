"""What happens to a partition whose batch the target did not take: pure decisions on its state.

The broker accepts a producer's batches strictly by sequence number, so after one failure every
later batch in flight fails too (or its outcome is unknown). Therefore a recovery waits until all
that was sent is answered, and then the oldest batch's failure decides for all.
"""

from __future__ import annotations

from collections.abc import Iterable

from connect.clients.errors import code_facts
from connect.protocol.messages import ProducedPartition
from connect.protocol.records import split
from connectors.mirror.copy.chooser import from_rebatched
from connectors.mirror.copy.memory import FetchBuffer, MemoryBudget
from connectors.mirror.copy.partition import UNKNOWN, CopyState, Failure, Outgoing, PartitionCopy

__all__ = [
    "DUPLICATE_SEQUENCE_NUMBER",
    "SPOILS",
    "abandon",
    "block",
    "classify",
    "drop_unsent",
    "evacuate",
    "requeue",
    "restart_sequence",
    "shed",
    "skip_head",
    "split_head",
    "surely_refused",
]

UNKNOWN_TOPIC_OR_PARTITION = 3

MESSAGE_TOO_LARGE = 10
RECORD_LIST_TOO_LARGE = 18
NOT_ENOUGH_REPLICAS = 19
TOPIC_AUTHORIZATION_FAILED = 29
INVALID_TIMESTAMP = 32
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
DUPLICATE_SEQUENCE_NUMBER = 46
INVALID_PRODUCER_EPOCH = 47
INVALID_PRODUCER_ID_MAPPING = 49
UNKNOWN_PRODUCER_ID = 59
INVALID_RECORD = 87
PRODUCER_FENCED = 90

_TOO_LARGE = (MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE)
_LOST_SEQUENCE = (
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    UNKNOWN_PRODUCER_ID,
    PRODUCER_FENCED,
)

_BAD_RECORD = (INVALID_TIMESTAMP, INVALID_RECORD)
"""One record of the batch or more breaks a rule of the target topic: one without a key in a
compacted topic, a timestamp out of bounds. The broker refuses the whole batch."""

_NOT_APPENDED = (UNKNOWN_TOPIC_OR_PARTITION, NOT_ENOUGH_REPLICAS, *_TOO_LARGE, *_LOST_SEQUENCE)
"""Answers given before the log was touched. After others the batch may be in it all the same: a
leader that steps down after it appended answers NOT_LEADER_OR_FOLLOWER."""

_INVALID_TXN_STATE = 48
_TRANSACTION_ABORTABLE = 120
SPOILS = frozenset({*_LOST_SEQUENCE, _INVALID_TXN_STATE, _TRANSACTION_ABORTABLE})
"""Answers to a batch after which its transaction cannot be committed. Whether somebody else has
the transactional id, only its coordinator knows: it is asked to abort."""

_FIRST_BLOCK_S = 1.0
_LONGEST_BLOCK_S = 60.0


def classify(
    batch: Outgoing, result: ProducedPartition, *, quarantine: bool = False
) -> tuple[Failure, str]:
    """What to do about an error answer, and the sentence that says what it was. `quarantine`:
    records that are at fault themselves are put aside."""
    facts = code_facts(result.error)
    first = batch.runs[0][0]
    reason = f"the target refused the batch at source offset {first}: {facts.name}"
    if result.message:
        reason += f" ({result.message})"
    if result.error in _TOO_LARGE:
        if batch.records > 1:
            return Failure.SPLIT, reason
        return Failure.QUARANTINE if quarantine else Failure.BLOCK, (
            f"the record at source offset {first} ({len(batch.data)} bytes as a batch) is larger "
            "than the target topic's max.message.bytes: raise it there, and copying goes on"
        )
    if quarantine and result.error in _BAD_RECORD:
        return Failure.SPLIT if batch.records > 1 else Failure.QUARANTINE, reason
    if result.error in _LOST_SEQUENCE:
        return Failure.NEW_PRODUCER, reason
    if facts.retriable or facts.stale_metadata:
        return Failure.RETRY, reason
    if result.error == TOPIC_AUTHORIZATION_FAILED:
        reason += "; grant Write on the target's topic"
    return Failure.BLOCK, reason


def surely_refused(code: int) -> bool:
    """Whether this answer says that the batch is not in the log, now or soon."""
    facts = code_facts(code)
    return code in _NOT_APPENDED or not (facts.retriable or facts.stale_metadata)


def requeue(partition: PartitionCopy) -> tuple[Failure, str]:
    """Put everything sent and not acknowledged back in front of the queue, in order.

    Returns the oldest batch's failure. Call when nothing waits for an answer any more.
    """
    head = partition.in_flight[0]
    failure, reason = head.failure or Failure.RETRY, head.reason
    for batch in partition.in_flight:
        batch.maybe_written |= batch.answered
    unknown = any(batch.maybe_written for batch in partition.in_flight)
    partition.queue.extendleft(reversed(partition.in_flight))
    partition.in_flight.clear()
    if failure in (Failure.BLOCK, Failure.QUARANTINE) and unknown:
        failure = Failure.RETRY  # later bytes may be there already: they must be sent the same
    return failure, reason


def abandon(partition: PartitionCopy) -> None:
    """Forget all that waits, whatever became of what was sent: the next batch has another producer,
    who is to be asked for."""
    partition.drop_all()
    restart_sequence(partition)
    partition.position = partition.acked_position


def drop_unsent(partition: PartitionCopy) -> None:
    """Forget what was never sent; it is fetched again, if at all."""
    if partition.position == UNKNOWN:
        return
    while partition.queue and partition.queue[-1].sequence == UNKNOWN:
        partition.forget(partition.queue.pop())
    partition.position = partition.resume


def shed(partition: PartitionCopy, budget: MemoryBudget) -> None:
    """Keep of what waits only what the target may have already, and the oldest to try again with,
    in memory of its own: a partition that cannot move must not hold whole fetch responses. The
    rest is fetched again later. Where memory is short, the oldest is not kept either."""
    sent = [batch for batch in partition.queue if batch.sequence != UNKNOWN]
    kept = max((n for n, batch in enumerate(sent, 1) if batch.maybe_written), default=0)
    if not kept and sent and 2 * budget.used < budget.limit:
        kept = 1
    if kept < len(sent):
        partition.next_sequence = sent[kept].sequence
    while len(partition.queue) > kept:
        partition.forget(partition.queue.pop())
    _own_memory(partition, partition.queue, budget)
    partition.position = partition.resume


def evacuate(partition: PartitionCopy, budget: MemoryBudget) -> None:
    """As `shed`, for a partition whose broker is silent: what is in flight gets memory of its own
    too. The old memory may be half sent, so it is not used again."""
    shed(partition, budget)
    _own_memory(partition, partition.in_flight, budget)


def _own_memory(
    partition: PartitionCopy, batches: Iterable[Outgoing], budget: MemoryBudget
) -> None:
    for batch in batches:
        size = len(batch.data)
        if batch.buffer.size == size:
            continue
        own = bytearray(batch.data)
        old = batch.buffer
        batch.data = memoryview(own)
        batch.buffer = FetchBuffer(budget, own)
        batch.buffer.retain()
        old.abandon()


def split_head(partition: PartitionCopy, budget: MemoryBudget) -> None:
    """Replace the oldest batch by its halves. Later sequence numbers stay right.

    Raises:
        CorruptData: its records do not parse; nothing has changed.
    """
    head = partition.queue[0]
    parts = split(head.data, runs=list(head.runs))
    partition.queue.popleft()
    partition.max_batch_bytes = max(1, len(head.data) - 1)
    sequence = head.sequence
    halves = [from_rebatched(part, FetchBuffer(budget, part.data)) for part in parts]
    halves[-1].resume = head.resume
    for half in halves:
        half.sequence = sequence
        sequence = (sequence + half.records) & 0x7FFFFFFF
    for half in reversed(halves):
        partition.queue.appendleft(half)
        partition.pending_bytes += len(half.data)
        partition.metrics.waits(half.records)
        half.buffer.retain()
    partition.forget(head)


def restart_sequence(partition: PartitionCopy) -> None:
    """Begin the producer's sequence anew: the broker lost or refused what it knew of it."""
    partition.producer_id = UNKNOWN
    partition.producer_epoch = UNKNOWN
    partition.next_sequence = 0
    partition.pipelined_until = 0.0
    for batch in partition.queue:
        batch.sequence = UNKNOWN
        batch.maybe_written = False


def skip_head(partition: PartitionCopy) -> None:
    """The oldest batch was put aside: go on after it, with what follows fetched anew. Only where
    none of what waits can be on the target, as for `block`."""
    oldest = partition.queue[0]
    partition.next_sequence = oldest.sequence
    partition.drop_all()
    partition.position = partition.acked_position = oldest.resume
    partition.max_batch_bytes = 0


def block(partition: PartitionCopy) -> float:
    """Drop everything under way, to be fetched again after the returned seconds.

    Only where none of it can be on the target: its sequence numbers are given out again.
    """
    oldest = partition.queue[0]
    if oldest.sequence != UNKNOWN:
        partition.next_sequence = oldest.sequence
    partition.drop_all()
    partition.position = partition.acked_position
    partition.max_batch_bytes = 0
    partition.state = CopyState.BLOCKED
    return float(min(_LONGEST_BLOCK_S, _FIRST_BLOCK_S * 2 ** min(partition.failures - 1, 6)))
