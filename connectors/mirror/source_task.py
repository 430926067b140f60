"""MirrorSourceTask: gives the batch copier its partitions, and keeps its books.

A transfer task (connect/plugin.py). The copy engine moves the bytes; this task turns what was
acknowledged into offset syncs, offset map pages and source offsets to store. All of it runs on the
task's thread, but `wake` and `health`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from connect.clients.properties import fetch_settings, produce_settings, wire_settings
from connect.clock import SYSTEM_CLOCK, Deadline
from connect.plugin import (
    PartitionHealth,
    SourceOffset,
    StoredOffset,
    TransferCounts,
    TransferTask,
)
from connect.protocol.messages import TopicPartition
from connectors.mirror.client_configs import (
    offset_syncs_consumer,
    offset_syncs_producer,
    source_consumer,
)
from connectors.mirror.config_source import SourceConfig, SourceTaskConfig
from connectors.mirror.copy.chooser import CopyOptions
from connectors.mirror.copy.engine import CopyEngine, EngineSettings
from connectors.mirror.copy.partition import OffsetRun, PartitionCopy
from connectors.mirror.formats import OffsetSync
from connectors.mirror.metrics import CopyTotals, PartitionMetrics
from connectors.mirror.offset_map import PageSpan, PartitionPages, page_key
from connectors.mirror.offset_map_trim import PageIndex, PageIndexReader
from connectors.mirror.offset_syncs import OffsetSyncRule
from connectors.mirror.policy import ReplicationPolicy, replication_policy
from connectors.mirror.sync_producer import SyncProducer

__all__ = ["MirrorSourceTask", "engine_settings"]

_LOG = logging.getLogger(__name__)

CODEC_NUMBERS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_CLOSE_SYNCS_S = 2.0
_ASSIGNMENT = "task.assigned.partitions"


def engine_settings(
    config: SourceConfig, consumer: Mapping[str, str], producer: Mapping[str, str]
) -> EngineSettings:
    """The copier's settings from a flow's config and its clients' Java properties."""
    fetch = fetch_settings(consumer)
    produce = produce_settings(producer)
    compression = produce.compression
    return EngineSettings(
        source=wire_settings(consumer),
        target=wire_settings(producer),
        fetch=fetch,
        produce=produce,
        options=CopyOptions(
            read_committed=fetch.isolation_level == 1,
            codec=None if compression is None else CODEC_NUMBERS[compression.codec],
            level=None if compression is None else compression.level,
            merge_bytes=config.mirror_copy_merge_batch_bytes,
            check_crcs=consumer.get("check.crcs", "true").strip().lower() != "false",
        ),
        buffer_bytes=config.mirror_copy_buffer_bytes,
    )


class _Books:
    """What is written down for one partition: its sync rule and its map pages."""

    __slots__ = ("pages", "rule")

    def __init__(self, lag_max: int, session: int) -> None:
        self.rule = OffsetSyncRule(lag_max)
        self.pages = PartitionPages(session)


class MirrorSourceTask(TransferTask):
    """See the module."""

    def __init__(self) -> None:
        self._engine: CopyEngine | None = None
        self._syncs: SyncProducer | None = None
        self._books: dict[TopicPartition, _Books] = {}
        self._totals = CopyTotals()
        self._metric_removers: dict[TopicPartition, Callable[[], None]] = {}
        self._left: list[PartitionCopy] = []
        self._committing: list[tuple[PartitionCopy, int]] = []
        self._index = PageIndex()
        self._index_reader: PageIndexReader | None = None
        self._read_spans: deque[dict[TopicPartition, list[PageSpan]]] = deque()

    # Lifecycle.

    def start(self, config: Mapping[str, str]) -> None:
        task = SourceTaskConfig.from_properties(config)
        self._config = task.connector
        self._flow = _flow_part(config)
        self._policy: ReplicationPolicy = replication_policy(config)
        self._session = SYSTEM_CLOCK.now_ms()
        consumer = source_consumer(config, task.task_index)
        self._client_id = consumer["client.id"]
        settings = engine_settings(self._config, consumer, self.context.producer_properties())
        self._engine = CopyEngine(settings, self._acked)
        if self._config.emit_offset_syncs_enabled or self._config.mirror_offset_map_enabled:
            other = (
                self._config.target_cluster_alias
                if self._config.offset_syncs_topic_location == "source"
                else self._config.source_cluster_alias
            )
            self._syncs = SyncProducer(
                offset_syncs_producer(config, task.task_index),
                self._policy.offset_syncs_topic(other),
                self._policy.offset_map_topic(other),
            )
            if self._config.mirror_offset_map_enabled:
                self._index_reader = PageIndexReader(
                    self._policy.offset_map_topic(other),
                    offset_syncs_consumer(config, task.task_index),
                    self._index_read,
                )
        self._assign(task.task_assigned_partitions)

    def _index_read(self, pages: dict[TopicPartition, list[PageSpan]]) -> None:
        """Called on the reader's thread: the spans wait for the next commit."""
        self._read_spans.append(pages)

    def _assign(self, partitions: Sequence[TopicPartition]) -> None:
        engine = self._running()
        assigned = {partition.source for partition in engine.partitions}
        wanted = set(partitions)
        for key in assigned - wanted:
            engine.remove(key)
        added = [key for key in partitions if not engine.keep(key)]
        offsets = self.context.stored_offsets([self._source_partition(key) for key in added])
        came_back = self._take_back(added)
        for key, offset in zip(added, offsets, strict=True):
            position = came_back.get(key, _position(offset))
            engine.add(key, self._target(key), position, self._metrics(key))
        engine.watch()
        _LOG.info(
            "%s task %d: %d partitions, %d of them new",
            self.context.connector_name,
            self.context.task_index,
            len(wanted),
            len(added),
        )

    def _take_back(self, added: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Positions of partitions that left and are here again before they were stored. Their old
        copies must not be stored any more: that could come after what the new ones reached."""
        keys = set(added)
        self._left += self._running().take_departed()
        back = {p.source: p.acked_position for p in self._left if p.source in keys}
        self._left = [p for p in self._left if p.source not in keys]
        for key in keys & self._metric_removers.keys():
            self._metric_removers.pop(key)()
        return {key: position for key, position in back.items() if position >= 0}

    def _source_partition(self, key: TopicPartition) -> dict[str, str | int]:
        # Key order as Java writes it: it is part of the stored key's bytes.
        return {
            "cluster": self._config.source_cluster_alias,
            "partition": key[1],
            "topic": key[0],
        }

    def _target(self, key: TopicPartition) -> TopicPartition:
        return (
            self._policy.format_remote_topic(self._config.source_cluster_alias, key[0]),
            key[1],
        )

    def _metrics(self, key: TopicPartition) -> PartitionMetrics:
        metrics = PartitionMetrics(
            self._config.source_cluster_alias,
            self._config.target_cluster_alias,
            self._target(key)[0],
            key[1],
            source_topic=key[0],
            client_id=self._client_id,
            totals=self._totals,
        )
        self._metric_removers[key] = metrics.register(self.context.metrics)
        return metrics

    def step(self, timeout: float) -> None:
        engine = self._running()
        engine.step(timeout)
        if self._syncs is not None:
            self._syncs.poll()

    def wake(self) -> None:
        if self._engine is not None:
            self._engine.wake()

    @classmethod
    def only_adds(cls, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
        """More partitions, and nothing else."""
        if _flow_part(before) != _flow_part(after):
            return False
        had, has = (set(config.get(_ASSIGNMENT, "").split(",")) for config in (before, after))
        return had <= has

    def reconfigure(self, config: Mapping[str, str]) -> bool:
        """Only the assignment may change in place; anything else restarts the task."""
        if _flow_part(config) != self._flow:
            return False
        task = SourceTaskConfig.from_properties(config)
        self._assign(task.task_assigned_partitions)
        return True

    def pause(self) -> None:
        self._running().set_fetching(False)

    def resume(self) -> None:
        self._running().set_fetching(True)

    def drain(self, deadline: Deadline) -> None:
        if not self._running().drain(deadline):
            _LOG.warning("not everything under way was acknowledged: it will be copied again")

    def stop(self) -> None:
        for remove in self._metric_removers.values():
            remove()
        self._metric_removers.clear()
        if self._index_reader is not None:
            self._index_reader.close()
            self._index_reader = None
        if self._syncs is not None:
            self._syncs.close(Deadline(_CLOSE_SYNCS_S))
            self._syncs = None
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def health(self) -> list[PartitionHealth]:
        return [] if self._engine is None else self._engine.health()

    def counts(self) -> TransferCounts:
        totals = self._totals
        return TransferCounts(totals.fetched, totals.acked, totals.waiting)

    def _running(self) -> CopyEngine:
        assert self._engine is not None, "the task is not running"
        return self._engine

    # Books.

    def _acked(self, partition: PartitionCopy, runs: Sequence[OffsetRun], base_offset: int) -> None:
        """The target has these records from `base_offset` on."""
        self.context.topic_used(partition.target[0])
        if self._syncs is None or base_offset < 0:
            return
        key = partition.source
        books = self._books.get(key)
        if books is None:
            books = self._books[key] = _Books(self._config.offset_lag_max, self._session)
        target = base_offset
        for source, count in runs:
            if self._config.mirror_offset_map_enabled:
                books.pages.copied(source, count, target)
            if self._config.emit_offset_syncs_enabled:
                for upstream, downstream in books.rule.copied(source, count, target):
                    self._syncs.sync(OffsetSync(key[0], key[1], upstream, downstream))
            target += count

    def prepare_commit(self) -> Future[list[StoredOffset]]:
        """The acknowledged positions, once the map pages that explain them are written."""
        engine = self._running()
        self._left += engine.take_departed()
        moved = [
            (partition, partition.acked_position)
            for partition in (*engine.partitions, *self._left)
            if partition.acked_position > 0
            and partition.acked_position != partition.stored_position
        ]
        self._committing = moved
        for partition, position in moved:
            if (books := self._books.get(partition.source)) is not None:
                books.pages.seen(position)
        offsets: list[StoredOffset] = [
            (self._source_partition(partition.source), {"offset": position - 1})
            for partition, position in moved
        ]
        result: Future[list[StoredOffset]] = Future()
        self._write_pages([partition for partition, _ in moved], lambda: result.set_result(offsets))
        return result

    def _write_pages(self, partitions: Sequence[PartitionCopy], then: Callable[[], None]) -> None:
        """Write the due pages, then call `then`: also after a failure, which costs exactness of
        translation until the pages are written, where storing no offsets would cost more."""
        due = [
            (partition.source, books.pages, books.pages.take_unsaved())
            for partition in partitions
            if (books := self._books.get(partition.source)) is not None
        ]
        if self._syncs is None:
            then()
            return

        def written(future: Future[None]) -> None:
            error = future.exception(timeout=0)
            if error is not None:
                _LOG.warning("offset map pages were not written: %s; trying again", error)
                for _, owner, pages in due:
                    owner.put_back(pages)
            then()

        encoded: list[tuple[bytes, bytes | None]] = []
        for key, _, pages in due:
            for page in pages:
                encoded.append((page_key(*key, page.first_source), page.encode()))
                self._index.add(key, PageSpan(page.session, page.first_source, page.end_source))
        encoded += [(useless, None) for useless in self._useless_pages(partitions)]
        self._syncs.write_pages(encoded).add_done_callback(written)

    def _useless_pages(self, partitions: Sequence[PartitionCopy]) -> list[bytes]:
        """Keys of pages to delete, of partitions that moved."""
        while self._read_spans:
            for key, spans in self._read_spans.popleft().items():
                for span in spans:
                    self._index.add(key, span)
        return [
            useless
            for partition in partitions
            for useless in self._index.useless(partition.source, partition.log_start_offset)
        ]

    def committed(self) -> None:
        for partition, position in self._committing:
            partition.stored_position = position
        self._committing = []
        self._forget_left()
        if self._syncs is None:
            return
        for key, books in self._books.items():
            delayed = books.rule.take_delayed()
            if delayed is not None:
                self._syncs.sync(OffsetSync(key[0], key[1], *delayed))
        self._syncs.flush_syncs()

    def _forget_left(self) -> None:
        """Partitions that left and are stored need no books any more."""
        still: list[PartitionCopy] = []
        assigned = {partition.source for partition in self._running().partitions}
        for partition in self._left:
            if partition.acked_position > 0 and (
                partition.acked_position != partition.stored_position
            ):
                still.append(partition)
            elif partition.source not in assigned:
                self._books.pop(partition.source, None)
                remove = self._metric_removers.pop(partition.source, None)
                if remove is not None:
                    remove()
        self._left = still


def _flow_part(config: Mapping[str, str]) -> dict[str, str]:
    """What a task cannot change while it runs: everything but its assignment."""
    return {key: value for key, value in config.items() if key != _ASSIGNMENT}


def _position(offset: SourceOffset | None) -> int | None:
    """Where to go on after a stored offset; None where there is none (Java: negative too)."""
    if offset is None:
        return None
    stored = offset.get("offset")
    if not isinstance(stored, int) or stored < 0:
        return None
    return stored + 1
