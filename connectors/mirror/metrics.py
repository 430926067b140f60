"""Metrics of one mirrored partition, under MirrorMaker 2's names, plus consumer lag.

The copier's thread updates them once per run of batches. The metrics exposition reads them without
locks. All records of a run count with the age of the newest one, because a batch header has no
other timestamp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from connect.clock import SYSTEM_CLOCK, Clock
from connect.metrics.catalogue import (
    CONSUMER_FETCH_GROUP,
    CONSUMER_GROUP,
    MIRROR_FLOW_GROUP,
    MIRROR_SOURCE_GROUP,
    PRODUCER_GROUP,
    PRODUCER_TOPIC_GROUP,
)
from connect.metrics.engine_metrics import ClientFigures
from connect.metrics.histogram import DurationHistogram
from connect.metrics.registry import MetricRegistry, MetricSample, MetricValue
from connect.metrics.sensors import Rate, WindowedStat
from connect.topic_partition import TopicPartition

__all__ = ["CopyTotals", "PartitionMetrics", "TaskPartitionMetrics"]

_CLOCKS_MS = 60_000
"""Smaller differences between clocks do not matter."""

_LATELY_MS = 24 * 3_600_000


class CopyTotals:
    """A task's totals over all partitions that it has or had: records fetched, acknowledged and in
    flight, bytes fetched, histograms of their age and latency, and the seconds that answers of
    source brokers were late. The copier's thread writes them; any thread may read them. `on_spark`:
    whether Spark copies. `clients` returns figures of the engine's clients; None on Spark."""

    __slots__ = (
        "acked",
        "age",
        "bytes",
        "clients",
        "fetched",
        "late_s",
        "latency",
        "on_spark",
        "waiting",
    )

    def __init__(self, *, on_spark: bool = False) -> None:
        self.on_spark = on_spark
        self.clients: Callable[[], ClientFigures] | None = None
        self.late_s = 0.0
        self.fetched = self.acked = self.waiting = self.bytes = 0
        self.age, self.latency = DurationHistogram(), DurationHistogram()

    def register(
        self,
        registry: MetricRegistry,
        consumer_id: str,
        producer_id: str,
        flow_task: Mapping[str, str],
    ) -> Callable[[], None]:
        """Register metrics of Java's consumer and producer, and the rest with the tags `flow_task`.
        Returns a function that removes them."""
        removers = [
            registry.register(MIRROR_FLOW_GROUP, flow_task, self.read),
            registry.register_samples(
                f"clients of {consumer_id}", lambda: self.read_clients(consumer_id, producer_id)
            ),
        ]

        def remove() -> None:
            for each in removers:
                each()

        return remove

    def read(self) -> dict[str, MetricValue]:
        return {
            "on-spark": float(self.on_spark),
            "source-late-seconds-total": self.late_s,
            "record-age-seconds": self.age.read(),
            "replication-latency-seconds": self.latency.read(),
        }

    def read_clients(self, consumer_id: str, producer_id: str) -> Iterator[MetricSample]:
        """Return attributes of Java's consumer and producer of the task."""
        if self.clients is not None:
            yield from self.clients().samples(consumer_id, producer_id, self.acked)
            return
        consumer, producer = {"client-id": consumer_id}, {"client-id": producer_id}
        yield MetricSample(CONSUMER_GROUP, consumer, {"incoming-byte-total": self.bytes})
        sent = {"outgoing-byte-total": self.bytes, "record-send-total": self.acked}
        yield MetricSample(PRODUCER_GROUP, producer, sent)


class PartitionMetrics:
    """The metrics of one partition.

    Only `read`, `read_consumer` and `samples` may be called from any thread; the others belong to
    the copier's thread. A negative timestamp means that the record has none.

    `source_topic` and `client_id` together add the consumer lag metric of Java's replication
    consumer, whose client ID is `client_id`. All counts are also added to `totals`.
    """

    __slots__ = (
        "_acked_rate",
        "_age",
        "_already_there",
        "_byte_count",
        "_byte_rate",
        "_client_id",
        "_clock",
        "_dropped_count",
        "_lag",
        "_lag_seen",
        "_latency",
        "_level_batches",
        "_level_records",
        "_limited",
        "_loss",
        "_loss_count",
        "_lost_at_ms",
        "_lost_records",
        "_quarantined",
        "_record_count",
        "_shallow_batches",
        "_shallow_records",
        "_source_topic",
        "_stuck",
        "_tags",
        "_throttled_s",
        "_totals",
    )

    def __init__(
        self,
        source: str,
        target: str,
        remote_topic: str,
        partition: int,
        *,
        source_topic: str | None = None,
        client_id: str | None = None,
        totals: CopyTotals | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        # The tags are in the order of MirrorMaker 2's MBean names.
        self._tags = {
            "source": source,
            "target": target,
            "topic": remote_topic,
            "partition": str(partition),
        }
        self._source_topic = source_topic
        self._client_id = client_id
        self._totals = totals or CopyTotals()
        self._clock = clock
        self._record_count = 0
        self._byte_count = 0
        self._shallow_records = 0
        self._shallow_batches = 0
        self._level_records = 0
        self._level_batches = 0
        self._quarantined = 0
        self._already_there = 0
        self._stuck = False
        self._limited = False
        self._throttled_s = 0.0
        self._loss: tuple[int, float] | None = None
        self._loss_count = 0
        self._lost_at_ms: int | None = None
        self._lost_records = 0
        self._dropped_count = 0
        self._acked_rate = Rate()
        self._byte_rate = Rate()
        self._age = WindowedStat()
        self._latency = WindowedStat()
        self._lag_seen = WindowedStat()
        self._lag: tuple[int | None, int | None, int] = (None, None, 0)

    # Methods for the copier's thread.

    def fetched(
        self, value_bytes: int, records: int, newest_timestamp_ms: int, now_ms: int
    ) -> None:
        """Count a run of records that was fetched from the source."""
        self._totals.fetched += records
        self._totals.bytes += value_bytes
        self._byte_count += value_bytes
        self._byte_rate.record(value_bytes, now_ms)
        if newest_timestamp_ms >= 0:
            age_ms = now_ms - newest_timestamp_ms
            self._age.record(age_ms, now_ms, records)
            self._totals.age.record(age_ms, records)

    def dropped(self, records: int) -> None:
        """Count records that were fetched and that transformations left out."""
        self._totals.fetched += records
        self._dropped_count += records

    def acked(self, records: int, newest_timestamp_ms: int, now_ms: int) -> None:
        """Count a run of records that the target acknowledged."""
        self._totals.acked += records
        self._record_count += records
        self._acked_rate.record(records, now_ms)
        if newest_timestamp_ms >= 0:
            latency_ms = now_ms - newest_timestamp_ms
            self._latency.record(latency_ms, now_ms, records)
            self._totals.latency.record(latency_ms, records)

    def waits(self, records: int) -> None:
        """Add `records` to the records in flight to the target; negative after an
        acknowledgement."""
        self._totals.waiting += records

    def set_lag(self, records: int | None, ms: int | None) -> None:
        """Set the target's lag in records; None if not known yet. While there is a lag, the time
        lag grows until the next call."""
        now_ms = self._clock.now_ms()
        self._lag = (records, ms, now_ms)
        if records is not None:
            self._lag_seen.record(records, now_ms)

    def shallow(self, records: int, batches: int) -> None:
        """Count acknowledged batches and records that were forwarded as bytes."""
        self._shallow_records += records
        self._shallow_batches += batches

    def record_level(self, records: int, batches: int) -> None:
        """Count acknowledged records that were converted and batched again."""
        self._level_records += records
        self._level_batches += batches

    def lost(self, records: int) -> None:
        """Count offsets that were lost from either log, for example because the topic was
        re-created."""
        self._loss_count += 1
        self._lost_records += records
        self._lost_at_ms = self._clock.now_ms()

    def quarantined(self, records: int) -> None:
        """Count offsets that went to the quarantine topic."""
        self._quarantined += records

    def found_on_target(self, records: int) -> None:
        """Count records that were on the target already after a crash and were not copied again."""
        self._already_there += records

    def set_stuck(self, stuck: bool) -> None:
        """Set whether the partition is stalled."""
        self._stuck = stuck

    def set_limited(self, limited: bool) -> None:
        """Set whether a rate limit delays the partition's records."""
        self._limited = limited

    def throttled(self, seconds: float) -> None:
        """Add the time for which a rate limit delayed the partition's records."""
        self._throttled_s += seconds

    def set_time_to_loss(self, records: int, seconds: float) -> None:
        """Set how far the fetch position is ahead of the source's log start offset, and the time
        until retention overtakes it (infinite: no loss is expected)."""
        self._loss = (records, seconds)

    # Methods for any thread.

    @property
    def totals(self) -> CopyTotals:
        """Return the totals of the partition's task. For the copier's thread."""
        return self._totals

    @property
    def dropped_count(self) -> int:
        """Return the number of records that transformations left out. For the copier's thread."""
        return self._dropped_count

    @property
    def byte_count(self) -> int:
        """Return the bytes of fetched batches."""
        return self._byte_count

    @property
    def topic(self) -> str:
        """Return the name of the copy."""
        return self._tags["topic"]

    def counts(self) -> tuple[int, int]:
        """Return the number of acknowledged records and the bytes read."""
        return self._record_count, self._byte_count

    def latency_ms(self, now_ms: int) -> float | None:
        """Return the mean time from a record's timestamp to the target's acknowledgement; None if
        no record with a timestamp was copied lately."""
        mean = self._latency.summary(now_ms)[2]
        return None if math.isnan(mean) else mean

    def timestamps_ahead_ms(self, now_ms: int) -> int | None:
        """Return by how much the timestamps of records copied lately are later than this host's
        clock; None if by less than a minute, which clocks that are kept by NTP never differ by."""
        latency_ms = self.latency_ms(now_ms)
        return round(-latency_ms) if latency_ms is not None and latency_ms < -_CLOCKS_MS else None

    def lost_lately(self, now_ms: int) -> bool:
        """Return whether records were lost in the last 24 hours, as far as this process knows."""
        return self._lost_at_ms is not None and now_ms - self._lost_at_ms < _LATELY_MS

    def time_to_loss_ms(self) -> int | None:
        """Return the time until records are lost; None if no loss is expected or it is not known
        yet."""
        if self._loss is None or self._loss[1] == float("inf"):
            return None
        return round(self._loss[1] * 1000)

    def read(self) -> dict[str, float]:
        """Return all attributes, without the lag while it is not known."""
        now_ms = self._clock.now_ms()
        age_min, age_max, age_avg = self._age.summary(now_ms)
        latency_min, latency_max, latency_avg = self._latency.summary(now_ms)
        values: dict[str, float] = {
            "record-count": self._record_count,
            "record-rate": self._acked_rate.per_second(now_ms),
            "byte-count": self._byte_count,
            "byte-rate": self._byte_rate.per_second(now_ms),
            "record-age-ms": self._age.last,
            "record-age-ms-min": age_min,
            "record-age-ms-max": age_max,
            "record-age-ms-avg": age_avg,
            "replication-latency-ms": self._latency.last,
            "replication-latency-ms-min": latency_min,
            "replication-latency-ms-max": latency_max,
            "replication-latency-ms-avg": latency_avg,
            "shallow-record-count": self._shallow_records,
            "shallow-batch-count": self._shallow_batches,
            "record-level-record-count": self._level_records,
            "record-level-batch-count": self._level_batches,
            "stuck": int(self._stuck),
            "limited": int(self._limited),
            "throttle-time-ms": round(self._throttled_s * 1000),
            "quarantined-record-count": self._quarantined,
            "already-copied-record-count": self._already_there,
            "loss-count": self._loss_count,
            "lost-record-count": self._lost_records,
        }
        records, ms, as_of_ms = self._lag
        if records is not None:
            values["record-lag"] = records
        if self._loss is not None:
            values["offsets-to-loss"] = self._loss[0]
            values["time-to-loss-ms"] = self._loss[1] * 1000
        if ms is not None:
            values["time-lag-ms"] = ms + max(0, now_ms - as_of_ms) if ms else 0
        return values

    def read_consumer(self) -> dict[str, float]:
        """Return the attributes of Java's replication consumer; empty until the lag is known."""
        records = self._lag[0]
        if records is None:
            return {}
        _, highest, mean = self._lag_seen.summary(self._clock.now_ms())
        return {"records-lag": records, "records-lag-max": highest, "records-lag-avg": mean}

    def samples(self) -> Iterator[MetricSample]:
        """Read all of it, as MirrorMaker 2's MBean and as that of Java's consumer."""
        yield MetricSample(MIRROR_SOURCE_GROUP, self._tags, self.read())
        if self._source_topic is not None and self._client_id is not None:
            tags = {
                "client-id": self._client_id,
                "topic": self._source_topic,
                "partition": self._tags["partition"],
            }
            yield MetricSample(CONSUMER_FETCH_GROUP, tags, self.read_consumer())


class TaskPartitionMetrics:
    """The metrics of a task's partitions, in a registry: one entry for all, because four functions
    for each of 100,000 partitions take 240 MB. The task's thread changes it; any thread reads."""

    def __init__(self) -> None:
        self._shown: dict[TopicPartition, PartitionMetrics] = {}
        self._remove: Callable[[], None] = lambda: None
        self._producer_id = ""

    def register(self, registry: MetricRegistry, task: str, producer_id: str) -> None:
        """Register the metrics of all partitions. `task`: its name, for the log. `producer_id`: the
        client ID of Java's producer, which has sums by topic."""
        self._producer_id = producer_id
        self._remove = registry.register_samples(f"partitions of {task}", self._read)

    def add(self, key: TopicPartition, metrics: PartitionMetrics) -> None:
        self._shown[key] = metrics

    def forget(self, key: TopicPartition) -> None:
        """Stop showing a partition, if it is shown."""
        self._shown.pop(key, None)

    def close(self) -> None:
        self._remove()
        self._shown.clear()

    def _read(self) -> list[MetricSample]:
        shown = tuple(self._shown.values())
        found = [sample for each in shown for sample in each.samples()]
        sent: dict[str, int] = {}
        for each in shown:
            sent[each.topic] = sent.get(each.topic, 0) + each.counts()[0]
        for topic, records in sent.items():
            tags = {"client-id": self._producer_id, "topic": topic}
            found.append(MetricSample(PRODUCER_TOPIC_GROUP, tags, {"record-send-total": records}))
        return found
