"""Error codes of Produce responses, and how the copier continues after each. Pure."""

from __future__ import annotations

from connect.clients.errors import code_facts
from connect.protocol.messages import ProducedPartition
from connectors.mirror.copy.batches.outgoing import Failure, Outgoing

__all__ = [
    "DUPLICATE_SEQUENCE_NUMBER",
    "SPOILS",
    "TOPIC_AUTHORIZATION_FAILED",
    "classify",
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
"""At least one record violates a rule of the target topic: no key in a compacted topic, or a
timestamp out of bounds. The broker rejects the whole batch."""

_NOT_APPENDED = (UNKNOWN_TOPIC_OR_PARTITION, NOT_ENOUGH_REPLICAS, *_TOO_LARGE, *_LOST_SEQUENCE)
"""Errors returned before an append. After other errors the batch may be in the log: a leader that
steps down after the append returns NOT_LEADER_OR_FOLLOWER."""

_INVALID_TXN_STATE = 48
_TRANSACTION_ABORTABLE = 120
SPOILS = frozenset({*_LOST_SEQUENCE, _INVALID_TXN_STATE, _TRANSACTION_ABORTABLE})
"""Errors of a batch after which its transaction cannot be committed. Only the coordinator knows
whether another producer has the transactional ID, so the copier asks it to abort."""


def classify(
    batch: Outgoing, result: ProducedPartition, *, quarantine: bool = False
) -> tuple[Failure, str]:
    """Return how to continue after an error, and a message for users. `quarantine`: invalid records
    go to the quarantine topic."""
    facts = code_facts(result.error)
    first = batch.runs[0][0]
    reason = f"the target rejected the batch at source offset {first}: {facts.name}"
    if result.message:
        reason += f" ({result.message})"
    if result.error in _TOO_LARGE:
        if batch.records > 1:
            return Failure.SPLIT, reason
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
    if result.error == TOPIC_AUTHORIZATION_FAILED:
        reason += "; grant Write on the target's topic"
    return Failure.BLOCK, reason


def surely_refused(code: int) -> bool:
    """Whether this error means that the batch is not in the log, and will not be."""
    facts = code_facts(code)
    return code in _NOT_APPENDED or not (facts.retriable or facts.stale_metadata)
