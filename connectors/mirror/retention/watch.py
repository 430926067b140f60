"""Estimates when retention may delete source records that a task has not copied yet.

The copier sees the start and end offset of a log, but not the topic's retention. While partitions
lag, a thread reads the topics' retention, the timestamps of the next records and the log sizes from
the source periodically. A task without lag sends no request.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, Protocol

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.cluster.describe_log_dirs import partition_sizes
from connect.clients.config.properties import wire_settings
from connect.clients.errors import not_authorized
from connect.clients.librdkafka.admin import Admin
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConnectError
from connect.protocol.messages import TopicPartition
from connectors.mirror.background.cluster_loop import STOP_TIMEOUT_S, cluster_loop
from connectors.mirror.copy.partition.retention_forecast import LossForecast
from connectors.mirror.metrics import PartitionMetrics
from connectors.mirror.retention.deadline import (
    NEVER,
    LogState,
    RetentionLimits,
    limits_of,
    loss_at_ms,
)
from connectors.mirror.retention.timestamp_search import PRECISION_MS, next_stamps

__all__ = ["Behind", "RetentionWatch", "expected_loss_ms", "growth"]

_LOG = logging.getLogger(__name__)

_LOOK_S = 10.0
_CONFIGS_S = 60.0
_TIMEOUT_S = 30.0
_ENDS = 12
"""Number of measurements from which the growth is computed: two minutes."""


class Behind(NamedTuple):
    """A partition with consumer lag. `record_bytes`: the average size of its copied records; 0:
    nothing was copied yet."""

    key: TopicPartition
    position: int
    start: int
    end: int
    record_bytes: float


class WatchedPartition(Protocol):
    """The part of a partition, of either engine, that the watch uses."""

    @property
    def source(self) -> TopicPartition: ...
    @property
    def metrics(self) -> PartitionMetrics: ...
    @property
    def forecast(self) -> LossForecast: ...
    @property
    def lag(self) -> int | None: ...
    @property
    def acked_position(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...


@dataclass(slots=True)
class _Topic:
    limits: RetentionLimits
    tiered: bool
    read_at: float


@dataclass(slots=True)
class _Ends:
    """The log end offsets of the last measurements: (monotonic seconds, offset)."""

    seen: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_ENDS))


def growth(ends: Collection[tuple[float, int]]) -> float:
    """Return the highest growth between two measurements, in offsets per second. Pure."""
    return max(
        (
            max(0, last[1] - first[1]) / (last[0] - first[0])
            for first, last in pairwise(ends)
            if last[0] > first[0]
        ),
        default=0.0,
    )


def expected_loss_ms(
    behind: Behind,
    limits: RetentionLimits,
    stamp_ms: int | None,
    size: int | None,
    grows: float,
    now_ms: int,
) -> float:
    """Return the earliest time (epoch ms) at which retention may delete the next record; `NEVER`:
    no deletion is expected.

    `size`: bytes of the log; None if the brokers do not report it. `grows`: offsets per second.
    Pure.
    """
    offsets = max(1, behind.end - behind.start)
    known = round(behind.record_bytes * offsets) if size is None else size
    if not known:
        # Without a size, deletion by size cannot be estimated.
        limits = RetentionLimits(limits.retention_ms, None)
    # The timestamp is exact to some seconds. An early estimate is safer than a late one.
    stamp = None if stamp_ms is None else max(0, stamp_ms - PRECISION_MS)
    return loss_at_ms(
        LogState(
            behind.start,
            behind.end,
            behind.position,
            now_ms,
            stamp_ms=stamp,
            size=known,
            grows=grows * known / offsets,
        ),
        limits,
    )


class RetentionWatch:
    """Estimates losses of one task. The task calls `look` and `close` on its thread; everything
    else runs on the watch's thread."""

    def __init__(
        self,
        flow: str,
        admin: Mapping[str, str],
        consumer: Mapping[str, str],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`admin` and `consumer`: Java properties of the clients for the source."""
        self._admin_properties = admin
        self._settings = wire_settings(consumer)
        self._flow = flow
        self._clock = clock
        self._due = clock.monotonic()
        self._lock = threading.Lock()
        self._behind: Sequence[Behind] = ()
        self._expected: Mapping[TopicPartition, float] = {}
        self._topics: dict[str, _Topic] = {}
        self._ends: dict[TopicPartition, _Ends] = {}
        self._admin: Admin | None = None
        self._link: ClusterLink | None = None
        self._sizes_denied = False
        self._started = False
        self._loop = cluster_loop(f"Loss forecast of {flow}", self._step, None, self._failed, clock)

    def look(self, partitions: Iterable[WatchedPartition]) -> None:
        """Set the estimates on the partitions, and request new ones for those that lag. Usually
        returns at once."""
        now = self._clock.monotonic()
        if now < self._due:
            return
        self._due = now + _LOOK_S
        behind = []
        with self._lock:
            expected = self._expected
        for partition in partitions:
            if not partition.lag or partition.log_start_offset < 0:
                partition.forecast.expect(NEVER)
                continue
            partition.forecast.expect(expected.get(partition.source, NEVER))
            records, taken = partition.metrics.counts()
            behind.append(
                Behind(
                    partition.source,
                    partition.acked_position,
                    partition.log_start_offset,
                    partition.high_watermark,
                    taken / records if records else 0.0,
                )
            )
        with self._lock:
            self._behind = behind
        if behind:
            if not self._started:
                self._started = True
                self._loop.start()
            self._loop.wake()

    def close(self) -> None:
        self._loop.request_stop()
        if self._link is not None:
            self._link.close()
        self._loop.stop(STOP_TIMEOUT_S)
        if self._admin is not None:
            self._admin.close()

    # Methods of the watch's thread.

    def _step(self) -> None:
        with self._lock:
            behind = self._behind
        if not behind:
            return
        admin = self._admin = self._admin or Admin(self._admin_properties)
        self._read_configs(admin, {each.key[0] for each in behind})
        now, now_ms = self._clock.monotonic(), self._clock.now_ms()
        self._note_ends(behind, now)
        limited = [each for each in behind if self._limits(each.key) != RetentionLimits()]
        by_age = [each for each in limited if self._limits(each.key).retention_ms is not None]
        stamps = next_stamps(admin.records_at, {each.key: each.position for each in by_age}, now_ms)
        sizes = self._sizes(
            [each.key for each in limited if self._limits(each.key).retention_bytes is not None]
        )
        expected = {
            each.key: now
            + (
                expected_loss_ms(
                    each,
                    self._limits(each.key),
                    stamps.get(each.key),
                    sizes.get(each.key),
                    growth(self._ends[each.key].seen),
                    now_ms,
                )
                - now_ms
            )
            / 1000
            for each in limited
        }
        with self._lock:
            self._expected = expected

    def _limits(self, key: TopicPartition) -> RetentionLimits:
        topic = self._topics.get(key[0])
        return RetentionLimits() if topic is None else topic.limits

    def _read_configs(self, admin: Admin, topics: Collection[str]) -> None:
        now = self._clock.monotonic()
        due = [
            name
            for name in topics
            if name not in self._topics or now - self._topics[name].read_at >= _CONFIGS_S
        ]
        found = admin.describe_topic_configs(due, _TIMEOUT_S, missing_ok=True)
        for name, entries in found.items():
            configs = {each.name: each.value for each in entries if each.value is not None}
            tiered = configs.get("remote.storage.enable") == "true"
            self._topics[name] = _Topic(limits_of(configs), tiered, now)
        self._topics = {name: each for name, each in self._topics.items() if name in topics}

    def _note_ends(self, behind: Sequence[Behind], now: float) -> None:
        self._ends = {each.key: self._ends.get(each.key, _Ends()) for each in behind}
        for each in behind:
            self._ends[each.key].seen.append((now, each.end))

    def _sizes(self, keys: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the sizes of logs that are wholly on their brokers' disks, if the brokers report
        them."""
        wanted = [key for key in keys if not self._topics[key[0]].tiered]
        if not wanted or self._sizes_denied:
            return {}
        topics = {topic for topic, _ in wanted}
        deadline = Deadline(_TIMEOUT_S, self._clock)
        if self._link is None:
            self._link = ClusterLink(
                self._settings, lambda: None, self._clock, f"sizes-{self._flow}", topics
            )
        self._link.watch_topics(topics)
        try:
            # The admin client answers once it has metadata, which log sizes need.
            self._link.list_offsets(wanted[:1], -1, timeout_s=_TIMEOUT_S).result(_TIMEOUT_S)
            return partition_sizes(self._link, wanted, deadline)
        except ConnectError as error:
            if not not_authorized(error):
                raise
            self._sizes_denied = True
            _LOG.info(
                "%s: the brokers do not report log sizes; the loss forecast by retention.bytes "
                "estimates them from the copied bytes: %s",
                self._flow,
                error,
            )
            return {}

    def _failed(self, error: Exception) -> None:
        _LOG.warning("%s: cannot forecast losses by retention: %s", self._flow, error)
