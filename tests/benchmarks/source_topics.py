"""Writes the topics that are copied, as a flow says: full batches, or what has to be opened."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from connect.clock import Deadline
from connect.errors import DeadlineExceeded
from tests.benchmarks.arena import create_led_topic
from tests.benchmarks.filling import fill
from tests.benchmarks.flows import Flow, Writing
from tests.benchmarks.payloads import Payload, make_pairs, make_payload
from tests.support.records.producing import Record, produce_transactions
from tests.support.records.reading import read_partition

__all__ = ["SourceTopic", "write_topic"]

_FILL_S = 300.0
_COMPACT_S = 300.0
_CLEANER_PAUSE_S = 20.0
"""Longer than log.cleaner.backoff.ms: if it changed nothing meanwhile, the cleaner is done."""
_TRANSACTION_RECORDS = 10_000
_ABORT_EVERY = 10


@dataclass(frozen=True, slots=True)
class SourceTopic:
    """`records`: those that a copy has to have. `value_bytes`: mean size of a value. `words`: what
    was written, for people."""

    name: str
    records: int
    value_bytes: float
    words: str


def write_topic(servers: str, flow: Flow, wanted: int, timeout_s: float = _FILL_S) -> SourceTopic:
    """Create and fill the flow's topic on a cluster of one broker with about `wanted` records.

    Raises `BrokerError`, and `DeadlineExceeded` if that takes longer than `timeout_s`, or if the
    broker does not compact the topic in time.
    """
    topic = create_led_topic(servers, flow.name, flow.partitions, flow.topic_configs)
    if flow.writing is Writing.TRANSACTIONS:
        return _write_transactions(servers, flow, topic, wanted)
    payload = _payload(flow, wanted)
    written = fill(servers, topic, flow.partitions, payload, wanted, timeout_s)
    words = (
        f"{written:,} records of {payload.value_bytes:.0f} bytes, "
        f"{payload.batch_records} in a batch of {payload.batch_bytes:,.0f} bytes"
    )
    if flow.writing is not Writing.COMPACTED:
        return SourceTopic(topic, written, payload.value_bytes, words)
    left = _compacted(servers, topic, flow.partitions, written)
    return SourceTopic(
        topic, left, payload.value_bytes, f"{words}, of which compaction left {left:,}"
    )


def _payload(flow: Flow, wanted: int) -> Payload:
    usual = make_payload(flow.kind, flow.codec_number, flow.batch_bytes)
    if flow.writing is not Writing.COMPACTED:
        return usual
    # Batches that are sent again have the same keys: only the last ones would be left.
    batches = wanted // usual.batch_records + flow.partitions
    return make_payload(flow.kind, flow.codec_number, flow.batch_bytes, batches)


def _compacted(servers: str, topic: str, partitions: int, written: int) -> int:
    """Wait until the broker has compacted the topic. Returns the number of records left."""
    deadline = Deadline(_COMPACT_S)
    before = written
    waiting = threading.Event()
    while not deadline.expired():
        waiting.wait(_CLEANER_PAUSE_S)
        left = sum(len(read_partition(servers, topic, number)) for number in range(partitions))
        if left == before < written:
            return left
        before = left
    raise DeadlineExceeded(f"{topic} was not compacted in time: {before:,} of {written:,} are left")


def _write_transactions(servers: str, flow: Flow, topic: str, wanted: int) -> SourceTopic:
    """Transactions in all partitions, one of ten of which is aborted."""
    pairs = make_pairs(flow.kind)
    sizes: list[int] = []

    def transactions() -> Iterator[tuple[Sequence[Record], bool]]:
        for number in range(1, wanted // _TRANSACTION_RECORDS + 1):
            records = [
                Record(value, key, n % flow.partitions)
                for n, (key, value) in enumerate(islice(pairs, _TRANSACTION_RECORDS))
            ]
            commits = number % _ABORT_EVERY != 0
            if commits:
                sizes.extend(len(record.value or b"") for record in records)
            yield records, commits

    produce_transactions(servers, topic, transactions(), compression=flow.codec)
    words = (
        f"{wanted:,} records in transactions of {_TRANSACTION_RECORDS:,}, {len(sizes):,} committed"
    )
    return SourceTopic(topic, len(sizes), sum(sizes) / len(sizes), words)
