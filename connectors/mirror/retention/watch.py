"""Estimates when retention may delete source records that a task has not copied yet.

The copier sees the start and end offset of a log, but not the topic's retention. While partitions
lag, a `RetentionReader`, which the flow's tasks in this process share, reads what is missing from
the source. A task without lag causes no request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from connect.clock import SYSTEM_CLOCK, Clock
from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.partition.retention_forecast import LossForecast
from connectors.mirror.metrics import PartitionMetrics
from connectors.mirror.retention.deadline import NEVER
from connectors.mirror.retention.expected_loss import Behind
from connectors.mirror.retention.reader import RetentionReader, leave, shared_reader

__all__ = ["RetentionWatch"]

_LOOK_S = 10.0


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


class RetentionWatch:
    """Estimates losses of one task. Belongs to the task's thread."""

    def __init__(
        self,
        flow: str,
        admin: Mapping[str, str],
        consumer: Mapping[str, str],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`admin` and `consumer`: Java properties of the clients for the source."""
        self._clock = clock
        self._due = clock.monotonic()
        self._reader: RetentionReader = shared_reader(self, flow, admin, consumer, clock)

    def look(self, partitions: Iterable[WatchedPartition]) -> None:
        """Set the estimates on the partitions, and request new ones for those that lag. Usually
        returns at once."""
        now = self._clock.monotonic()
        if now < self._due:
            return
        self._due = now + _LOOK_S
        behind = []
        expected = self._reader.expected(self)
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
        self._reader.ask(self, behind)

    def close(self) -> None:
        leave(self, self._reader)
