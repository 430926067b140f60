"""Measures the load of each source partition: incoming bytes per second, and bytes of lag.

`LoadBook` is pure: it receives measurements and computes weights. `LoadWatch` measures
periodically: the source's log end offsets, the log sizes on disk, and the stored source offsets. It
has its own thread and belongs to the connector. Any thread may read `weights`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.cluster.describe_log_dirs import partition_sizes
from connect.clients.cluster.list_offsets import EARLIEST, LATEST
from connect.clients.config.properties import wire_settings
from connect.clients.config.settings import WireSettings
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConnectError
from connect.protocol.messages import TopicPartition
from connectors.mirror.background.cluster_loop import STOP_TIMEOUT_S, cluster_loop

__all__ = ["LoadBook", "LoadWatch", "Looked"]

log = logging.getLogger(__name__)


_TIMEOUT_S = 10.0

_CATCH_UP_S = 600.0
"""The backlog counts as if it had to be copied within this time."""
_IDLE_BYTES_PER_S = 1000.0
"""The cost of an idle partition in requests and state, in bytes per second."""
_UNKNOWN_BYTES = 512.0
"""Assumed record size if the brokers do not report log sizes."""
_NEW_SHARE = 0.3
"""The weight of the newest measurement against the earlier ones."""


@dataclass(frozen=True, slots=True)
class Looked:
    """One measurement (monotonic seconds): log start and end offsets, log sizes in bytes if the
    brokers report them, and the stored source offsets."""

    at: float
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    sizes: Mapping[TopicPartition, int]
    copied: Mapping[TopicPartition, int]


class LoadBook:
    """Computes weights from measurements."""

    def __init__(self) -> None:
        self._last: Looked | None = None
        self._rates: dict[TopicPartition, float] = {}

    def note(self, looked: Looked) -> dict[TopicPartition, float]:
        """Add a measurement. Returns the weights of its partitions in bytes per second."""
        before, self._last = self._last, looked
        weights: dict[TopicPartition, float] = {}
        for partition, end in looked.ends.items():
            each = _record_bytes(looked, partition)
            earlier = None if before is None else before.ends.get(partition)
            if before is not None and earlier is not None and looked.at > before.at:
                self._learn(partition, max(0, end - earlier) * each / (looked.at - before.at))
            start = looked.starts.get(partition, 0)
            waiting = max(0, end - max(start, looked.copied.get(partition, start)))
            weights[partition] = (
                self._rates.get(partition, 0.0) + waiting * each / _CATCH_UP_S + _IDLE_BYTES_PER_S
            )
        self._rates = {key: rate for key, rate in self._rates.items() if key in looked.ends}
        return weights

    def _learn(self, partition: TopicPartition, rate: float) -> None:
        known = self._rates.get(partition)
        self._rates[partition] = rate if known is None else known + _NEW_SHARE * (rate - known)


def _record_bytes(looked: Looked, partition: TopicPartition) -> float:
    size = looked.sizes.get(partition, 0)
    records = looked.ends[partition] - looked.starts.get(partition, 0)
    return size / records if size and records > 0 else _UNKNOWN_BYTES


class LoadWatch:
    """Measures periodically. The owner calls `start` and `stop`, once each."""

    def __init__(
        self,
        flow: str,
        consumer: Mapping[str, str],
        partitions: Callable[[], Sequence[TopicPartition] | None],
        copied: Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]],
        on_look: Callable[[], None],
        on_failure: Callable[[Exception], None],
        look_s: float,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`consumer`: the Java properties of a client for the source. `partitions`: returns the
        partitions to measure; None: not known yet. `copied`: returns the next source offsets, as
        far as they are stored. `on_look`: called on the watch's thread after each measurement, even
        a failed one."""
        self.weights: Mapping[TopicPartition, float] = {}
        """The weights by partition, from the last measurement. The mapping is replaced, never
        changed."""
        self._flow = flow
        self._settings: WireSettings = wire_settings(consumer)
        self._partitions = partitions
        self._copied = copied
        self._on_look = on_look
        self._clock = clock
        self._book = LoadBook()
        self._link: ClusterLink | None = None
        self._sizes_failed = False
        self._loop = cluster_loop(f"Loads of {flow}", self._look, look_s, on_failure, clock)

    def start(self) -> None:
        self._loop.start()

    def wake(self) -> None:
        """Measure now, because the partitions changed. May be called from any thread."""
        self._loop.wake()

    def stop(self) -> None:
        self._loop.request_stop()
        if self._link is not None:
            self._link.close()
        self._loop.stop(STOP_TIMEOUT_S)

    def _look(self) -> None:
        partitions = self._partitions()
        if not partitions:
            return
        try:
            self.weights = self._book.note(self._see(partitions))
        finally:
            self._on_look()

    def _see(self, partitions: Sequence[TopicPartition]) -> Looked:
        if self._link is None:
            self._link = ClusterLink(self._settings, lambda: None, self._clock, "mirror-loads")
        link = self._link
        link.watch_topics({topic for topic, _ in partitions})
        asked = [link.list_offsets(partitions, kind, 0, _TIMEOUT_S) for kind in (EARLIEST, LATEST)]
        starts, ends = (
            {key: found for key, found in each.result().items() if isinstance(found, int)}
            for each in asked
        )
        return Looked(
            self._clock.monotonic(),
            starts,
            ends,
            self._log_sizes(link, partitions),
            self._copied(partitions),
        )

    def _log_sizes(
        self, link: ClusterLink, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """Return the log sizes. Without them all records count as equally large, which is still
        better than counting partitions."""
        try:
            return partition_sizes(link, partitions, Deadline(_TIMEOUT_S, self._clock))
        except ConnectError as error:
            if not self._sizes_failed:
                self._sizes_failed = True
                log.info(
                    "%s: cannot read the source's log sizes, so all records count as equally "
                    "large: %s",
                    self._flow,
                    error,
                )
            return {}
