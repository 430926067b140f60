"""What each partition of a source asks of its task: bytes a second that come, and bytes that wait.

`LoadBook` is pure: it is told what was seen, and says what each partition weighs. `LoadWatch`
looks now and then: at the ends of the source's logs, at their sizes on disk, and at the source
offsets that are stored. It has a thread of its own, and belongs to the connector; `weights` may be
read from any thread.
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
"""What waits counts as if it were to be copied within this time."""
_IDLE_BYTES_PER_S = 1000.0
"""What a partition costs that nothing comes into: its place in requests and in books."""
_UNKNOWN_BYTES = 512.0
"""Of a record, where the brokers do not tell the sizes of logs."""
_NEW_SHARE = 0.3
"""How much the last look counts against those before."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What was seen at one time (monotonic seconds): the logs' first and next offsets, their bytes
    as far as brokers tell, and up to where they are copied as far as it is stored."""

    at: float
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    sizes: Mapping[TopicPartition, int]
    copied: Mapping[TopicPartition, int]


class LoadBook:
    """See the module."""

    def __init__(self) -> None:
        self._last: Looked | None = None
        self._rates: dict[TopicPartition, float] = {}

    def note(self, looked: Looked) -> dict[TopicPartition, float]:
        """The weights now, in bytes a second, of what could be looked at."""
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
    """See the module. `start` and `stop` are its owner's, once each."""

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
        """`consumer`: the Java properties of a client of the source. `partitions`: those to look
        at; None: not known yet. `copied`: the next source offsets, as far as they are stored.
        `on_look` comes on the watch's thread, also when nothing could be seen."""
        self.weights: Mapping[TopicPartition, float] = {}
        """By partition, as of the last look; replaced, never changed."""
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
        """Look now: there are other partitions. From any thread."""
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
        """Without them records count as equally large, which still is better than partitions."""
        try:
            return partition_sizes(link, partitions, Deadline(_TIMEOUT_S, self._clock))
        except ConnectError as error:
            if not self._sizes_failed:
                self._sizes_failed = True
                log.info("%s: the source does not tell how large logs are: %s", self._flow, error)
            return {}
