"""Reads from a source cluster what tells when retention deletes records, for all tasks of a flow in
this process.

A thread reads the topics' retention, the timestamps of the next records and the log sizes when a
task asks. Tasks share it, because a client and its threads take half a megabyte.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.cluster.describe_log_dirs import partition_sizes
from connect.clients.config.properties import wire_settings
from connect.clients.errors import not_authorized
from connect.clients.librdkafka.admin import Admin
from connect.clock import Clock, Deadline
from connect.errors import ConnectError
from connect.log_fields import without_log_fields
from connect.protocol.messages import TopicPartition
from connectors.mirror.background.cluster_loop import STOP_TIMEOUT_S, cluster_loop
from connectors.mirror.retention.deadline import RetentionLimits, limits_of
from connectors.mirror.retention.expected_loss import Behind, expected_loss_ms, growth
from connectors.mirror.retention.timestamp_search import next_stamps

__all__ = ["RetentionReader", "leave", "shared_reader"]

_LOG = logging.getLogger(__name__)

_CONFIGS_S = 60.0
_TIMEOUT_S = 30.0
_ENDS = 12
"""Number of measurements from which the growth is computed: two minutes."""

_SHARED: dict[object, RetentionReader] = {}
_SHARED_LOCK = threading.Lock()


@dataclass(slots=True)
class _Topic:
    limits: RetentionLimits
    tiered: bool
    read_at: float


@dataclass(slots=True)
class _Asker:
    """What one task asked for, and what it got. `ends`: the log end offsets of the last
    measurements, (monotonic seconds, offset)."""

    behind: Sequence[Behind] = ()
    waits: bool = False
    expected: Mapping[TopicPartition, float] = field(default_factory=dict)
    ends: dict[TopicPartition, deque[tuple[float, int]]] = field(default_factory=dict)

    def note_ends(self, behind: Sequence[Behind], now: float) -> None:
        self.ends = {each.key: self.ends.get(each.key, deque(maxlen=_ENDS)) for each in behind}
        for each in behind:
            self.ends[each.key].append((now, each.end))


def shared_reader(
    task: object,
    flow: str,
    admin: Mapping[str, str],
    consumer: Mapping[str, str],
    clock: Clock,
) -> RetentionReader:
    """Return the reader of the flow's tasks with these Java properties of an admin client; `task`
    must `leave` it. `consumer`: the properties with which log sizes are read. Thread-safe."""
    key = (flow, frozenset(admin.items()), clock)
    with _SHARED_LOCK:
        reader = _SHARED.get(key)
        if reader is None:
            reader = _SHARED[key] = RetentionReader(key, flow, admin, consumer, clock)
        reader.join(task)
    return reader


def leave(task: object, reader: RetentionReader) -> None:
    """End the use of a reader, which closes with its last task. Thread-safe."""
    with _SHARED_LOCK:
        if not reader.drop(task):
            return
        del _SHARED[reader.key]
    reader.close()


class RetentionReader:
    """Reads for the tasks of one flow. `ask` and `expected` are safe from any thread."""

    def __init__(
        self,
        key: object,
        flow: str,
        admin: Mapping[str, str],
        consumer: Mapping[str, str],
        clock: Clock,
    ) -> None:
        self.key = key
        self._admin_properties = admin
        self._settings = wire_settings(consumer)
        self._flow = flow
        self._clock = clock
        self._lock = threading.Lock()
        self._askers: dict[object, _Asker] = {}
        self._topics: dict[str, _Topic] = {}
        self._admin: Admin | None = None
        self._link: ClusterLink | None = None
        self._sizes_denied = False
        self._started = False
        with without_log_fields():
            self._loop = cluster_loop(
                f"Loss forecast of {flow}", self._step, None, self._failed, clock
            )

    def join(self, task: object) -> None:
        with self._lock:
            self._askers[task] = _Asker()

    def drop(self, task: object) -> bool:
        """Forget a task. Return whether none is left."""
        with self._lock:
            self._askers.pop(task, None)
            return not self._askers

    def ask(self, task: object, behind: Sequence[Behind]) -> None:
        """Request estimates for these partitions of a task. Returns at once."""
        with self._lock:
            asker = self._askers[task]
            asker.behind, asker.waits = behind, bool(behind)
            start = asker.waits and not self._started
            self._started |= start
        if start:
            self._loop.start()
        if behind:
            self._loop.wake()

    def expected(self, task: object) -> Mapping[TopicPartition, float]:
        """Return the last estimates for a task: monotonic seconds."""
        with self._lock:
            return self._askers[task].expected

    def close(self) -> None:
        self._loop.request_stop()
        if self._link is not None:
            self._link.close()
        self._loop.stop(STOP_TIMEOUT_S)
        if self._admin is not None:
            self._admin.close()

    # Methods of the reader's thread.

    def _step(self) -> None:
        with self._lock:
            asked = [(each, each.behind) for each in self._askers.values() if each.waits]
            topics = {b.key[0] for each in self._askers.values() for b in each.behind}
        if not asked:
            return
        behind = [each for _, part in asked for each in part]
        admin = self._admin = self._admin or Admin(self._admin_properties)
        self._read_configs(admin, topics)
        now, now_ms = self._clock.monotonic(), self._clock.now_ms()
        limited = [each for each in behind if self._limits(each.key) != RetentionLimits()]
        by_age = [each for each in limited if self._limits(each.key).retention_ms is not None]
        stamps = next_stamps(admin.records_at, {each.key: each.position for each in by_age}, now_ms)
        sizes = self._sizes(
            [each.key for each in limited if self._limits(each.key).retention_bytes is not None]
        )
        for asker, part in asked:
            asker.note_ends(part, now)
            expected = {
                each.key: now
                + (self._loss_at_ms(asker, each, stamps, sizes, now_ms) - now_ms) / 1000
                for each in part
                if self._limits(each.key) != RetentionLimits()
            }
            with self._lock:
                asker.expected = expected
                asker.waits = asker.behind is not part

    def _loss_at_ms(
        self,
        asker: _Asker,
        behind: Behind,
        stamps: Mapping[TopicPartition, int],
        sizes: Mapping[TopicPartition, int],
        now_ms: int,
    ) -> float:
        key = behind.key
        grows = growth(asker.ends[key])
        return expected_loss_ms(
            behind, self._limits(key), stamps.get(key), sizes.get(key), grows, now_ms
        )

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

    def _sizes(self, keys: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the sizes of logs that are wholly on their brokers' disks, if the brokers report
        them."""
        wanted = [key for key in keys if not self._topics[key[0]].tiered]
        if not wanted or self._sizes_denied:
            return {}
        # Those of all tasks, so that each round does not ask for other metadata.
        topics = {
            name
            for name, each in self._topics.items()
            if each.limits.retention_bytes is not None and not each.tiered
        }
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
