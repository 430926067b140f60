"""How a simulated broker takes one batch of a Produce request: Kafka's checks, in Kafka's order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from connect.protocol.batches import crc_matches, read_headers
from tests.simulation.kafka import codes
from tests.simulation.kafka.log import Batch
from tests.simulation.kafka.partition import SimulatedPartition
from tests.simulation.kafka.producers import Verdict

if TYPE_CHECKING:
    from tests.simulation.kafka.broker import Broker

__all__ = ["append"]

UNKNOWN_TOPIC_OR_PARTITION = 3
NOT_LEADER_OR_FOLLOWER = 6
REQUEST_TIMED_OUT = 7
MESSAGE_TOO_LARGE = 10
NOT_ENOUGH_REPLICAS = 19
INVALID_TXN_STATE = 48
INVALID_RECORD = 87

_REFUSALS = (NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS, *codes.PRODUCE)
"""That replicas are missing comes most often."""

Decided = Callable[[int, int], None]
"""(error code, base offset)"""


def append(
    broker: Broker,
    key: tuple[str, int],
    data: bytes,
    timeout_ms: int,
    transactional: bool,
    decided: Decided,
) -> None:
    """Judge and append one batch; `decided` is called now, or once it is replicated or is not."""
    cluster = broker.cluster
    partition = cluster.find(key)
    code = _refusal(broker, partition, data)
    if code or partition is None:
        decided(code, -1)
        return
    (header,) = read_headers(memoryview(data))
    batch = Batch(data, 0, -1, None)
    log = partition.log
    verdict, value = log.producers.judge(
        batch.producer, batch.producer_epoch, batch.sequence, batch.count
    )
    if verdict is Verdict.REFUSE:
        cluster.note(f"{cluster.name} refuses {_name(batch, key)}: code {value}")
        decided(value, -1)
        return
    if verdict is Verdict.DUPLICATE:
        cluster.note(f"{cluster.name} has {_name(batch, key)} already, at {value}")
        partition.when_replicated(value + batch.count, lambda error: decided(error, value))
        return
    assert header.records == header.last_offset_delta + 1
    if transactional and not (
        batch.producer in log.open or cluster.takes_transactional(batch, key)
    ):
        cluster.note(f"{cluster.name} refuses {_name(batch, key)}: not in the transaction")
        decided(INVALID_TXN_STATE, -1)
        return
    made = log.append(data, partition.epoch)
    cluster.appended(partition, made)
    _acknowledge(broker, partition, made, timeout_ms, decided)


def _name(batch: Batch, key: tuple[str, int]) -> str:
    return (
        f"{key[0]}-{key[1]} producer {batch.producer}/{batch.producer_epoch} "
        f"sequence {batch.sequence}+{batch.count}"
    )


def _refusal(broker: Broker, partition: SimulatedPartition | None, data: bytes) -> int:
    """Why the broker does not even look at the producer's sequence numbers; 0: it does."""
    cluster = broker.cluster
    rng = broker.rng
    if partition is None:
        return UNKNOWN_TOPIC_OR_PARTITION
    if partition.leader != broker.node_id:
        return NOT_LEADER_OR_FOLLOWER
    if cluster.faults.refuse and rng.random() < cluster.faults.refuse:
        return rng.choice(_REFUSALS)
    if not partition.enough_replicas:
        return NOT_ENOUGH_REPLICAS
    headers = read_headers(memoryview(data))
    assert len(headers) == 1, f"{len(headers)} batches for one partition"
    assert crc_matches(memoryview(data), headers[0]), "the copier sent a batch with a wrong CRC"
    if len(data) > partition.max_message_bytes:
        return MESSAGE_TOO_LARGE
    if cluster.refuses_records is not None and cluster.refuses_records(partition.key, data):
        return INVALID_RECORD
    return 0


def _acknowledge(
    broker: Broker, partition: SimulatedPartition, made: Batch, timeout_ms: int, decided: Decided
) -> None:
    cluster, rng = broker.cluster, broker.rng
    base, end = made.base, made.next
    if cluster.faults.late and rng.random() < cluster.faults.late:
        partition.replicating = False
        cluster.time.after(2.0 * rng.random(), lambda: cluster.resume_replication(partition))
        if rng.random() < 0.25:
            cluster.note(f"{cluster.name} {partition.key}: leader steps down after {base}")
            partition.when_replicated(end, lambda error: decided(error, base))
            cluster.move_leader(partition)
            return
        if rng.random() < 0.75:
            decided(rng.choice(codes.PRODUCE_AFTER_APPEND), -1)
            return
    partition.replicate()
    cluster.moved_on(partition)
    if end <= partition.log.high:
        decided(0, base)
        return
    answered = False

    def once(error: int) -> None:
        nonlocal answered
        if not answered:
            answered = True
            decided(error, base)

    partition.when_replicated(end, once)
    cluster.time.after(timeout_ms / 1000, lambda: once(REQUEST_TIMED_OUT))
