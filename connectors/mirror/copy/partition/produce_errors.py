"""Error codes of Produce responses, and how the copier continues after each. Pure."""

from __future__ import annotations

from connect.protocol.error_codes import ErrorCode, code_facts
from connect.protocol.messages import ProducedPartition
from connectors.mirror.copy.batches.outgoing import Failure, Outgoing

__all__ = [
    "ABORTABLE",
    "classify",
    "surely_refused",
]


_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_LOST_SEQUENCE = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.PRODUCER_FENCED,
)

_BAD_RECORD = (ErrorCode.INVALID_TIMESTAMP, ErrorCode.INVALID_RECORD)
"""At least one record violates a rule of the target topic: no key in a compacted topic, or a
timestamp out of bounds. The broker rejects the whole batch.
"""

_NOT_APPENDED = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    *_TOO_LARGE,
    *_LOST_SEQUENCE,
)
"""Errors returned before an append. After other errors the batch may be in the log: a leader that
steps down after the append returns NOT_LEADER_OR_FOLLOWER."""

ABORTABLE = frozenset(
    {*_LOST_SEQUENCE, ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE}
)
"""Errors of a batch after which its transaction cannot be committed. Only the coordinator knows
whether another producer has the transactional ID, so the copier asks it to abort."""


def classify(
    batch: Outgoing, result: ProducedPartition, *, topic: str, quarantine: bool = False
) -> tuple[Failure, str]:
    """Return how to continue after an error, and a message for users. `topic`: that of the target.
    `quarantine`: invalid records go to the quarantine topic."""
    facts = code_facts(result.error)
    first = batch.runs[0][0]
    reason = f"the target rejected the batch at source offset {first}: {facts.name}"
    if result.message:
        reason += f" ({result.message})"
    if result.error in _TOO_LARGE:
        if batch.records > 1:
            return Failure.SPLIT, (
                f"the batch of {batch.records} records at source offset {first} "
                f"({len(batch.data)} bytes) is larger than the target topic's max.message.bytes"
            )
        return Failure.QUARANTINE if quarantine else Failure.BLOCK, (
            f"the record at source offset {first} ({len(batch.data)} bytes as a batch) is larger "
            "than the target topic's max.message.bytes: raise it to continue copying"
        )
    if quarantine and result.error in _BAD_RECORD:
        return Failure.SPLIT if batch.records > 1 else Failure.QUARANTINE, reason
    if result.error in _LOST_SEQUENCE:
        return Failure.NEW_PRODUCER, reason
    if facts.retriable or facts.stale_metadata:
        return Failure.RETRY, reason
    if result.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        reason += f"; grant Write on topic {topic} at the target"
    return Failure.BLOCK, reason


def surely_refused(code: int) -> bool:
    """Whether this error means that the batch is not in the log, and will not be."""
    facts = code_facts(code)
    return code in _NOT_APPENDED or not (facts.retriable or facts.stale_metadata)
