"""Handles Fetch responses: positions, batches for the target, and the source's errors.

A response is handled in two steps, so that the source broker works while batches are processed:
`note` records how far each partition is fetched, and `convert` queues the batches; the next fetch
is sent in between. No partition moves between the steps.

`FetchResponseHandler` is the source-side counterpart of `ProduceResponseHandler`. Runs on the copy
engine's thread."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial

from connect.clients.errors import error_from_code
from connect.errors import ConnectError, CorruptData, Interrupted
from connect.loop import backoff_s
from connect.protocol.batches import BatchHeader
from connect.protocol.error_codes import ErrorCode, code_facts
from connect.protocol.messages import FetchedPartition, FetchResponse
from connectors.mirror.copy.batches.choice import read_batches
from connectors.mirror.copy.batches.conversion import (
    Chosen,
    FetchedRecords,
    Unreadable,
    outgoing_batches,
)
from connectors.mirror.copy.batches.outgoing import UNKNOWN, Outgoing
from connectors.mirror.copy.batches.transformed import transformed_batches
from connectors.mirror.copy.brokers.source import LIVE_PARTITION_SHARE, LIVE_SHARE, SourceNode
from connectors.mirror.copy.context import CopyContext, ReplicaChanged
from connectors.mirror.copy.memory import FetchBuffer
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.partition.states import InvariantBroken
from connectors.mirror.copy.positions.log_validation import LogValidation
from connectors.mirror.copy.quarantine import (
    QuarantinedRecords,
    unreadable_records,
)
from connectors.mirror.copy.throttle import Throttle

__all__ = ["FetchResponseHandler", "NewRecords"]

_LOG = logging.getLogger(__name__)

_SOURCE_RETRY_FIRST_S = 0.1
_SOURCE_RETRY_MOST_S = 10.0
_UNREADABLE_TRIES = 5
"""Number of fetches of a corrupt batch before it counts as unreadable, because the network may have
damaged it."""
_QUIET_FAILURES = 3
"""Up to this number of retriable errors are not shown as the partition's error."""

_WITHOUT_TOPIC = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
)
"""The errors of a fetch by ID whose topic was deleted, or is not known to the broker yet."""

NewRecords = tuple[PartitionCopy, FetchedPartition, list[BatchHeader], int]
"""A partition with new records, their headers, and the position that they were fetched from."""


class FetchResponseHandler:
    """Applies Fetch responses to partitions and queues their batches."""

    def __init__(self, context: CopyContext, checks: LogValidation, throttle: Throttle) -> None:
        settings = context.settings
        self._context = context
        self._link = context.source
        self._loop = context.loop
        self._budget = context.budget
        self._options = settings.options
        self._partition_bytes = settings.fetch.max_partition_fetch_bytes
        self._preference_s = settings.source.metadata_max_age_ms / 1000
        self._checks = checks
        self._throttle = throttle

    def note(self, node: SourceNode, response: FetchResponse) -> list[NewRecords]:
        """Move the partitions' positions past the fetched records, which `convert` takes next."""
        fresh: list[NewRecords] = []
        now_ms = self._loop.now_ms()
        for fetched in response.partitions:
            partition = self._context.partitions.get((fetched.topic, fetched.partition))
            if (
                partition is None
                or partition.leaving
                or partition.held_back
                or partition.source_node != node.node_id
                or not node.answers(partition)
            ):
                continue
            if fetched.error:
                self._fetch_failed(partition, fetched.error, by_id=node.by_id)
            else:
                partition.answered_by_source(by_id=node.by_id)
                self._note(partition, fetched, fresh)
            self._context.touched[partition] = None
            partition.metrics.set_lag(partition.lag, partition.lag_ms(now_ms))
        if not self._context.fetching:
            # Copying is paused: the records are fetched again later.
            for partition, _, _, _ in fresh:
                partition.fetch_again()
                self._context.mark(partition)
            return []
        if self._throttle.on:
            self._throttle.count([(each, headers) for each, _, headers, _ in fresh])
        return fresh

    def convert(self, fresh: Sequence[NewRecords], buffer: FetchBuffer) -> list[PartitionCopy]:
        """Queue the batches of a response, whose records are in `buffer`. Returns the partitions
        that have more to send now."""
        filled = []
        for partition, fetched, headers, position in fresh:
            before = len(partition.queue)
            try:
                self._copy(partition, fetched, headers, position, buffer)
            except InvariantBroken as error:
                self._context.stop_broken(partition, error)
            if len(partition.queue) > before:
                filled.append(partition)
        return filled

    def _note(
        self, partition: PartitionCopy, fetched: FetchedPartition, fresh: list[NewRecords]
    ) -> None:
        """Apply a fetch response to a partition, and move its position past the records."""
        end = fetched.high_watermark
        if self._options.read_committed:
            stable = fetched.last_stable_offset
            undecided = max(0, end - stable) if stable >= 0 else 0
            if not undecided or not partition.undecided or stable != partition.high_watermark:
                partition.undecided_since = self._loop.now()
            partition.undecided = undecided
            end = stable
        partition.high_watermark = end
        partition.log_start_offset = fetched.log_start_offset
        if fetched.preferred_replica >= 0:
            self._prefer(partition, fetched.preferred_replica)
            return
        if not len(fetched.records):
            partition.far_behind &= partition.position < end
            self._source_works(partition)
            return
        try:
            headers = self._read(partition, fetched)
        except CorruptData as error:
            self._source_failed(partition, str(error))
            return
        if not headers:
            partition.far_behind = True  # A batch may be larger than what was requested.
            self._context.mark(partition)
            self._source_works(partition)
            return
        headers = _believable(headers, partition)
        if not headers:
            self._source_failed(
                partition,
                "the source returned offsets that do not follow the fetch position "
                f"{partition.position}, or that are beyond the high watermark "
                f"{partition.high_watermark}",
                visible=False,
            )
            return
        partition.epochs.saw(fetched.records, headers)
        position = partition.position
        after = max(position, headers[-1].next_offset)
        if partition.end is not None:
            after = min(after, partition.end)
        partition.fetched_to(after)
        self._see_how_far_behind(partition, len(fetched.records), after - position)
        fresh.append((partition, fetched, headers, position))
        self._context.mark(partition)

    def _see_how_far_behind(self, partition: PartitionCopy, size: int, offsets: int) -> None:
        """Decide from a response of `size` bytes, with this number of offsets, whether the
        partition is far behind. Between the two limits nothing changes, so that it seldom changes
        its session."""
        left = partition.high_watermark - partition.position
        few = size <= self._partition_bytes // LIVE_PARTITION_SHARE // 2
        if left <= 0 and few:
            partition.far_behind = False
        elif left > 0 and not few and left * size > self._partition_bytes // LIVE_SHARE * offsets:
            partition.far_behind = True

    def _read(self, partition: PartitionCopy, fetched: FetchedPartition) -> list[BatchHeader]:
        end = partition.high_watermark
        if partition.end is not None:
            end = partition.end if end < 0 else min(end, partition.end)
        return read_batches(
            fetched.records,
            position=partition.position,
            end=end,
            aborted=fetched.aborted,
            options=self._options,
            runs=partition.change is None,
        )

    def _copy(
        self,
        partition: PartitionCopy,
        fetched: FetchedPartition,
        headers: list[BatchHeader],
        position: int,
        buffer: FetchBuffer,
    ) -> None:
        try:
            batches, unreadable, dropped = self._outgoing(
                partition, fetched, headers, position, buffer
            )
        except Interrupted:
            partition.fetch_again()
            return
        if _out_of_order(batches, position):
            partition.fetch_again()
            self._source_failed(partition, f"the batches at offset {position} are out of order")
            return
        after = partition.position if unreadable is None else unreadable.position
        start = position
        for batch in batches:
            partition.enqueue(batch, start)
            start = batch.resume
        partition.queued(after)
        _measure_size(partition, headers, after - position)
        if dropped:
            partition.metrics.dropped(dropped)
        if batches:
            now_ms = self._loop.now_ms()
            for batch in batches:
                partition.metrics.fetched(
                    len(batch.data), batch.records, batch.max_timestamp, now_ms
                )
        if unreadable is not None:
            self._source_failed(partition, unreadable.reason)
            self._quarantine_unreadable(partition, fetched.records, headers, unreadable)
            return
        self._source_works(partition)
        if partition.has_enough_pending(self._partition_bytes):
            self._context.mark(partition)

    def _outgoing(
        self,
        partition: PartitionCopy,
        fetched: FetchedPartition,
        headers: list[BatchHeader],
        position: int,
        buffer: FetchBuffer,
    ) -> Chosen:
        records = FetchedRecords(
            fetched.records,
            headers,
            position,
            partition.end,
            partition.max_batch_bytes,
            fetched.aborted,
            self._options,
            buffer,
            self._budget,
        )
        if partition.change is not None:
            return transformed_batches(records, partition.change)
        return outgoing_batches(records)

    def _quarantine_unreadable(
        self,
        partition: PartitionCopy,
        records: memoryview,
        headers: list[BatchHeader],
        unreadable: Unreadable,
    ) -> None:
        """Quarantine what stays unreadable, or fails to be transformed, once all before it is
        copied."""
        quarantine = self._context.quarantine
        tries = _UNREADABLE_TRIES if unreadable.record is None else 1
        if (
            quarantine is None
            or partition.source_failures < tries
            or partition.queue
            or partition.in_flight
        ):
            return
        aside = unreadable_records(partition, records, headers, unreadable)
        if aside is None:
            partition.source_error = f"{unreadable.reason}; the end of the batch is not known"
            return
        partition.quarantining = True
        self._context.mark(partition)
        self._context.when_done(quarantine.put(aside), partial(self._put, partition, aside))

    def _put(self, partition: PartitionCopy, aside: QuarantinedRecords, done: Future[None]) -> None:
        partition.quarantining = False
        error = done.exception(timeout=0)
        if error is not None:
            partition.source_error = f"{aside.reason}; it cannot be quarantined: {error}"
        elif partition.position == aside.first and not partition.searching:
            partition.skip_to(aside.last + 1)
            partition.source_retry_at = 0.0
            self._source_works(partition)
            self._context.listener.quarantined(partition, aside)
        self._context.mark(partition)

    def _prefer(self, partition: PartitionCopy, replica: int) -> None:
        """Follow the leader's preferred read replica in our rack (KIP-392). Only the leader may
        name one, and not itself."""
        if replica == partition.source_node or partition.preferred_replica != UNKNOWN:
            partition.preferred_replica = UNKNOWN
            self._source_failed(
                partition,
                f"broker {partition.source_node} rejects reads and prefers replica {replica}",
                visible=False,
            )
            self._context.post(ReplicaChanged(partition))
        elif replica in self._link.snapshot.nodes:
            partition.preferred_replica = replica
            partition.preferred_until = self._loop.now() + self._preference_s
            self._context.post(ReplicaChanged(partition))
        else:
            self._link.request_refresh((partition.source[0],))
            self._source_failed(
                partition,
                f"the preferred read replica {replica} is not in the cluster metadata",
                visible=False,
            )

    # Errors of the source.

    @staticmethod
    def _source_works(partition: PartitionCopy) -> None:
        partition.source_failures = 0
        partition.source_error = None

    def _fetch_failed(self, partition: PartitionCopy, code: int, *, by_id: bool) -> None:
        if partition.preferred_replica != UNKNOWN:
            # Only the leader's response counts, because the replica may lag or may no longer be a
            # replica.
            partition.preferred_replica = UNKNOWN
            self._context.post(ReplicaChanged(partition))
            self._source_failed(
                partition, f"the preferred replica returned {code_facts(code).name}", visible=False
            )
            return
        if by_id and code in _WITHOUT_TOPIC:
            partition.refused_by_id(self._loop.now())
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._checks.out_of_range(partition)
            self._context.mark(partition)
            return
        topic, number = partition.source
        error = error_from_code(code, f"fetch of {topic}-{number}")
        if code_facts(code).stale_metadata:
            self._link.request_refresh((topic,))
        text = str(error)
        if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            text += f"; grant Read on topic {topic} at the source"
        self._source_failed(partition, text, visible=not error.retriable)

    def _source_failed(
        self, partition: PartitionCopy, reason: str, *, visible: bool = True
    ) -> None:
        """Leave the partition out of fetches during the backoff."""
        partition.source_failures += 1
        failures = partition.source_failures
        if visible or failures > _QUIET_FAILURES:
            partition.source_error = reason
            if failures in (1, _QUIET_FAILURES + 1):
                _LOG.warning("%s-%d: %s; trying again", *partition.source, reason)
        wait = backoff_s(_SOURCE_RETRY_FIRST_S, _SOURCE_RETRY_MOST_S, failures - 1)
        partition.source_retry_at = self._loop.now() + wait
        self._context.mark(partition)
        self._loop.after(wait, lambda: self._context.mark(partition))

    def source_lost(self, node: SourceNode, error: ConnectError) -> None:
        """Handle a lost connection to a source broker, or a fetch that it refused."""
        for partition in self._context.partitions.values():
            if partition.source_key == (node.node_id, node.backlog):
                partition.preferred_replica = UNKNOWN
                self._context.touched[partition] = None
                if node.error is not None:
                    partition.source_error = str(error)


def _believable(headers: list[BatchHeader], partition: PartitionCopy) -> list[BatchHeader]:
    """Return the batches up to the end offset that the source reported; none if all are before the
    requested offset.

    Offsets have no checksum: a batch with an offset far ahead would make the copier skip everything
    before it. Records that were appended meanwhile come with the next response.
    """
    if headers[-1].next_offset <= partition.position:
        return []
    end = partition.high_watermark
    if end < 0 or headers[-1].next_offset <= end:
        return headers
    return [header for header in headers if header.next_offset <= end]


def _measure_size(partition: PartitionCopy, headers: list[BatchHeader], offsets: int) -> None:
    if headers:
        last = headers[-1]
        partition.size.measure(last.start + last.size - headers[0].start, offsets)


def _out_of_order(batches: Sequence[Outgoing], position: int) -> bool:
    """Whether batches overlap, or begin before `position`. Offsets have no checksum."""
    for batch in batches:
        if batch.runs[0][0] < position or batch.resume <= batch.runs[0][0]:
            return True
        position = batch.resume
    return False
