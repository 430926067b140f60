"""The progress of the mirror, from the offsets of both clusters.

`Progress` is pure: it receives observations and computes lag and rates. `Watcher` makes
observations.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec

from connect.clock import SYSTEM_CLOCK, Clock
from deploy.demo.events import DemoTopic, mean_event_bytes

__all__ = ["Observation", "PartitionEnds", "Progress", "TopicRow", "Watcher"]

PartitionKey = tuple[str, int]

RATE_WINDOW_S = 1.0
"""Rates are averaged over this time; shorter averages flicker."""

_REQUEST_S = 5.0
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class PartitionEnds:
    """End offset and timestamp of the newest record on each side. Timestamp -1: not known."""

    source_end: int = 0
    target_end: int = 0
    source_timestamp_ms: int = _UNKNOWN
    target_timestamp_ms: int = _UNKNOWN


@dataclass(frozen=True, slots=True)
class Observation:
    """All partitions at one moment. `at`: monotonic seconds. `reported_lag`: records by source
    partition, as the mirror reports them (for topics with offset gaps). `source_silent`,
    `target_silent`: whether that cluster did not answer for some partition, whose end is then that
    of an earlier observation."""

    at: float
    ends: Mapping[PartitionKey, PartitionEnds]
    reported_lag: Mapping[PartitionKey, int]
    source_silent: bool = False
    target_silent: bool = False

    @property
    def silent(self) -> bool:
        return self.source_silent or self.target_silent


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One line of the view. None: not known."""

    topic: DemoTopic
    source_end: int
    target_end: int
    lag_records: int | None
    lag_seconds: float | None
    records_per_s: float
    bytes_per_s: float


class Progress:
    """Computes lag and rates from recent observations."""

    def __init__(self, topics: Sequence[DemoTopic], *, repeats: bool = False) -> None:
        """`repeats`: records may be in the copy twice, so use the mirror's reported lag instead of
        the copy's offsets where there is one."""
        self.topics = topics
        self._repeats = repeats
        self.mean_bytes = {topic.name: mean_event_bytes(topic) for topic in topics}
        self._recent: deque[Observation] = deque()
        self.peak_bytes_per_s = 0.0

    def add(self, observation: Observation) -> None:
        self._recent.append(observation)
        while len(self._recent) > 2 and observation.at - self._recent[1].at >= RATE_WINDOW_S:
            self._recent.popleft()
        self.peak_bytes_per_s = max(
            self.peak_bytes_per_s, sum(row.bytes_per_s for row in self.rows())
        )

    @property
    def observed(self) -> bool:
        """Whether there is an observation. No other method may be called before."""
        return bool(self._recent)

    @property
    def latest(self) -> Observation:
        return self._recent[-1]

    def rows(self) -> list[TopicRow]:
        """Return one row per topic. Needs an observation."""
        return [self._row(topic) for topic in self.topics]

    def copied_records(self) -> int:
        return sum(ends.target_end for ends in self.latest.ends.values())

    def copied_bytes(self) -> float:
        """Return the copied bytes of keys and values, uncompressed."""
        return sum(
            ends.target_end * self.mean_bytes[name] for (name, _), ends in self.latest.ends.items()
        )

    def _row(self, topic: DemoTopic) -> TopicRow:
        first, last = self._recent[0], self._recent[-1]
        ends = [last.ends[key] for key in topic.partition_keys]
        target_end = sum(end.target_end for end in ends)
        before = sum(first.ends[key].target_end for key in topic.partition_keys)
        elapsed = last.at - first.at
        rate = (target_end - before) / elapsed if elapsed > 0 else 0.0
        return TopicRow(
            topic,
            sum(end.source_end for end in ends),
            target_end,
            self._lag_records(topic),
            _lag_seconds(ends),
            rate,
            rate * self.mean_bytes[topic.name],
        )

    def _lag_records(self, topic: DemoTopic) -> int | None:
        lags = [self._lag_of(topic, key) for key in topic.partition_keys]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if len(known) == len(lags) else None

    def _lag_of(self, topic: DemoTopic, key: PartitionKey) -> int | None:
        last = self.latest
        if last.silent:
            return None
        reported = last.reported_lag.get(key)
        if not topic.gapless or (self._repeats and reported is not None):
            return reported
        return max(0, last.ends[key].source_end - last.ends[key].target_end)


def _lag_seconds(ends: Iterable[PartitionEnds]) -> float | None:
    """Return how much older the copy's newest record is than the source's, maximum over the
    partitions."""
    worst: float | None = None
    for end in ends:
        if _UNKNOWN in (end.source_timestamp_ms, end.target_timestamp_ms):
            continue
        behind = max(0, end.source_timestamp_ms - end.target_timestamp_ms) / 1000
        worst = behind if worst is None else max(worst, behind)
    return worst


class Watcher:
    """Queries both clusters for their offsets. Used by one thread."""

    def __init__(
        self,
        topics: Sequence[DemoTopic],
        source_servers: str,
        target_servers: str,
        prefix: str,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`prefix`: the prefix of copied topics' names."""
        self._keys = [key for topic in topics for key in topic.partition_keys]
        self._clock = clock
        self._source = _Side(source_servers, "", self._keys)
        self._target = _Side(target_servers, prefix, self._keys)

    def observe(self, reported_lag: Mapping[PartitionKey, int]) -> Observation:
        """Observe the current offsets. A partition that does not exist yet has offset 0 and no
        timestamp; one whose leader does not respond, its last known offset and no timestamp."""
        # Query the target first, so that the copy never seems to be ahead of its source.
        target, source = self._target.ask(), self._source.ask()
        at = self._clock.monotonic()
        target_offsets, source_offsets = target(), source()
        return Observation(
            at,
            {
                key: PartitionEnds(
                    source_offsets[key][0],
                    target_offsets[key][0],
                    source_offsets[key][1],
                    target_offsets[key][1],
                )
                for key in self._keys
            },
            dict(reported_lag),
            self._source.silent,
            self._target.silent,
        )


_Answers = dict[PartitionKey, "Future[ListOffsetsResultInfo]"]
_Offsets = dict[PartitionKey, tuple[int, int]]
"""(end offset, newest timestamp) by source partition."""


class _Side:
    """One cluster."""

    def __init__(self, servers: str, prefix: str, keys: Sequence[PartitionKey]) -> None:
        self._client = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self._prefix = prefix
        self._keys = keys
        self._known: set[str] = set()
        self._last: dict[PartitionKey, int] = {}
        self.silent = False
        """Whether some partition that exists had no answer, the last time."""

    def ask(self) -> Callable[[], _Offsets]:
        """Send the requests. Returns a function that waits for the responses."""
        self._find_topics()
        ends = self._ask(OffsetSpec.latest())  # type: ignore[no-untyped-call]
        newest = self._ask(OffsetSpec.max_timestamp())  # type: ignore[no-untyped-call]
        self._client.poll(0)

        def answers() -> _Offsets:
            found = {key: _answer(ends, key, lambda answer: answer.offset) for key in self._keys}
            self._last |= {key: offset for key, offset in found.items() if offset != _UNKNOWN}
            self.silent = any(
                offset == _UNKNOWN and self._prefix + key[0] in self._known
                for key, offset in found.items()
            )
            return {
                key: (
                    self._last.get(key, 0),
                    _answer(newest, key, lambda answer: answer.timestamp),
                )
                for key in self._keys
            }

        return answers

    def _find_topics(self) -> None:
        """Find out which topics exist. If librdkafka were asked for the offsets of a missing topic,
        it would remember for minutes that it is missing."""
        wanted = {self._prefix + topic for topic, _ in self._keys}
        if wanted <= self._known:
            return
        with contextlib.suppress(KafkaException):  # The next observation tries again.
            self._known = wanted & self._client.list_topics(timeout=_REQUEST_S).topics.keys()

    def _ask(self, spec: OffsetSpec) -> _Answers:
        query = {
            TopicPartition(self._prefix + topic, number): spec
            for topic, number in self._keys
            if self._prefix + topic in self._known
        }
        if not query:
            return {}
        answers = self._client.list_offsets(query, request_timeout=_REQUEST_S)
        return {
            (asked.topic.removeprefix(self._prefix), asked.partition): answer
            for asked, answer in answers.items()
        }


def _answer(
    answers: _Answers, key: PartitionKey, value: Callable[[ListOffsetsResultInfo], int]
) -> int:
    if key not in answers:
        return _UNKNOWN
    try:
        return int(value(answers[key].result(_REQUEST_S + 1)))
    except (KafkaException, FutureTimeout):
        return _UNKNOWN
