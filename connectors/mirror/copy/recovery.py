"""What happens to a partition whose batch the target did not take: pure decisions on its state.

The broker accepts a producer's batches strictly by sequence number, so after one failure every
later batch in flight fails too (or its outcome is unknown). Therefore a recovery waits until all
that was sent is answered, and then the oldest batch's failure decides for all.
"""

from __future__ import annotations

from connect.clients.errors import code_facts
from connect.protocol.messages import ProducedPartition
from connect.protocol.records import split
from connectors.mirror.copy.chooser import from_rebatched
from connectors.mirror.copy.memory import FetchBuffer, MemoryBudget
from connectors.mirror.copy.partition import UNKNOWN, CopyState, Failure, Outgoing, PartitionCopy

__all__ = [
    "DUPLICATE_SEQUENCE_NUMBER",
    "classify",
    "requeue",
    "restart_sequence",
    "shed",
    "split_head",
]

MESSAGE_TOO_LARGE = 10
RECORD_LIST_TOO_LARGE = 18
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
DUPLICATE_SEQUENCE_NUMBER = 46
INVALID_PRODUCER_EPOCH = 47
INVALID_PRODUCER_ID_MAPPING = 49
UNKNOWN_PRODUCER_ID = 59
PRODUCER_FENCED = 90

_TOO_LARGE = (MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE)
_LOST_SEQUENCE = (
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    UNKNOWN_PRODUCER_ID,
    PRODUCER_FENCED,
)

_FIRST_BLOCK_S = 1.0
_LONGEST_BLOCK_S = 60.0


def classify(batch: Outgoing, result: ProducedPartition) -> tuple[Failure, str]:
    """What to do about an error answer, and the sentence that says what it was."""
    facts = code_facts(result.error)
    first = batch.runs[0][0]
    reason = f"the target refused the batch at source offset {first}: {facts.name}"
    if result.message:
        reason += f" ({result.message})"
    if result.error in _TOO_LARGE:
        if batch.records > 1:
            return Failure.SPLIT, reason
        return Failure.BLOCK, (
            f"the record at source offset {first} ({len(batch.data)} bytes as a batch) is larger "
            "than the target topic's max.message.bytes: raise it there, and copying goes on"
        )
    if result.error in _LOST_SEQUENCE:
        return Failure.NEW_PRODUCER, reason
    if facts.retriable or facts.stale_metadata:
        return Failure.RETRY, reason
    return Failure.BLOCK, reason


def requeue(partition: PartitionCopy) -> tuple[Failure, str]:
    """Put everything sent and not acknowledged back in front of the queue, in order.

    Returns the oldest batch's failure. Call when nothing waits for an answer any more.
    """
    head = partition.in_flight[0]
    failure, reason = head.failure or Failure.RETRY, head.reason
    unknown = any(batch.maybe_written for batch in partition.in_flight)
    partition.queue.extendleft(reversed(partition.in_flight))
    partition.in_flight.clear()
    if failure is Failure.BLOCK and unknown:
        failure = Failure.RETRY  # later bytes may be there already: they must be sent the same
    return failure, reason


def shed(partition: PartitionCopy, budget: MemoryBudget) -> None:
    """Keep only what was sent before, in memory of its own, so that a partition that cannot move
    does not hold whole fetch responses. The rest is fetched again later."""
    kept: list[Outgoing] = []
    resume = partition.acked_position
    for batch in partition.queue:
        partition.forget(batch)
        if batch.sequence != UNKNOWN:
            kept.append(batch)
            resume = batch.resume
    partition.queue.clear()
    for batch in kept:
        own = bytearray(batch.data)
        batch.data = memoryview(own)
        batch.buffer = FetchBuffer(budget, own)
        partition.enqueue(batch)
    partition.position = resume


def split_head(partition: PartitionCopy, budget: MemoryBudget) -> None:
    """Replace the oldest batch by its halves. Later sequence numbers stay right."""
    head = partition.queue.popleft()
    partition.max_batch_bytes = max(1, len(head.data) - 1)
    sequence = head.sequence
    halves = [
        from_rebatched(part, FetchBuffer(budget, part.data))
        for part in split(head.data, runs=list(head.runs))
    ]
    halves[-1].resume = head.resume
    for half in halves:
        half.sequence = sequence
        sequence = (sequence + half.records) & 0x7FFFFFFF
    for half in reversed(halves):
        partition.queue.appendleft(half)
        partition.pending_bytes += len(half.data)
        half.buffer.retain()
    partition.forget(head)


def restart_sequence(partition: PartitionCopy) -> None:
    """Begin the producer's sequence anew: the broker lost or refused what it knew of it."""
    partition.producer_id = UNKNOWN
    partition.producer_epoch = UNKNOWN
    partition.next_sequence = 0
    for batch in partition.queue:
        batch.sequence = UNKNOWN
        batch.maybe_written = False


def block(partition: PartitionCopy) -> float:
    """Drop everything under way, to be fetched again after the returned seconds."""
    oldest = partition.queue[0]
    partition.next_sequence = oldest.sequence
    partition.drop_all()
    partition.position = partition.acked_position
    partition.max_batch_bytes = 0
    partition.state = CopyState.BLOCKED
    return float(min(_LONGEST_BLOCK_S, _FIRST_BLOCK_S * 2 ** min(partition.failures, 6)))
